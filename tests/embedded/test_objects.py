"""The production client reads and writes objects over the socket, as on any cluster."""

from __future__ import annotations

import pytest

from informers.api import PatchType, Preconditions, Selectors
from informers.client.transport import KubeApi
from informers.errors import AlreadyExists, Conflict, Invalid, NotFound
from simulation.cluster.workloads import workload
from simulation.demo.workplace import LEDGERS, NODES, PODS, WORKLOADS
from simulation.embedded.cluster import EmbeddedCluster
from tests.embedded.raw_client import NAMESPACE, ledger, pod

pytestmark = pytest.mark.anyio


async def test_a_created_object_has_the_fields_that_the_server_sets(api: KubeApi) -> None:
    created = await api.create(WORKLOADS, workload("worker"), NAMESPACE, strict=True)
    found = await api.get(WORKLOADS, "worker", NAMESPACE)

    assert found == created
    assert found.document["metadata"]["generation"] == 1
    assert found.document["spec"]["accelerator"]["type"] == "GPU"


async def test_a_second_create_of_the_same_name_is_refused(api: KubeApi) -> None:
    await api.create(LEDGERS, ledger(), NAMESPACE)

    with pytest.raises(AlreadyExists):
        await api.create(LEDGERS, ledger(), NAMESPACE)


async def test_an_invalid_object_is_refused(api: KubeApi) -> None:
    with pytest.raises(Invalid, match=r"spec.modelID: Required value"):
        await api.create(WORKLOADS, workload("worker", modelID=None), NAMESPACE)


async def test_all_pages_of_a_list_show_one_revision(api: KubeApi) -> None:
    for name in ("c", "a", "b"):
        await api.create(LEDGERS, ledger(name), NAMESPACE)

    first = await api.list_page(LEDGERS, NAMESPACE, limit=2)
    await api.delete(LEDGERS, "c", NAMESPACE)
    second = await api.list_page(LEDGERS, NAMESPACE, limit=2, continue_token=first.continue_token)

    names = [[item.metadata.name for item in page.items] for page in (first, second)]
    assert names == [["a", "b"], ["c"]]
    assert first.resource_version == second.resource_version
    assert not second.continue_token


async def test_lists_honor_selectors(cluster: EmbeddedCluster, api: KubeApi) -> None:
    cluster.fleet.add_nodes(2)
    await api.create(LEDGERS, ledger("gold", labels={"tier": "gold"}), NAMESPACE)
    await api.create(LEDGERS, ledger("plain"), NAMESPACE)
    await api.create(PODS, pod("bound", nodeName="nowhere"), NAMESPACE)
    await api.create(PODS, pod("free"), NAMESPACE)

    gold = await api.list_page(LEDGERS, selectors=Selectors(labels="tier in (gold)"))
    bound = await api.list_page(PODS, NAMESPACE, selectors=Selectors(fields="spec.nodeName=nowhere"))
    node = await api.list_page(NODES, selectors=Selectors(fields="metadata.name=gpu-node-1"))

    chosen = [[item.metadata.name for item in page.items] for page in (gold, bound, node)]
    assert chosen == [["gold"], ["bound"], ["gpu-node-1"]]


async def test_a_write_with_a_stale_version_is_a_conflict(api: KubeApi) -> None:
    old = await api.create(LEDGERS, ledger(), NAMESPACE)
    await api.patch(LEDGERS, "ledger-a", {"metadata": {"labels": {"a": "b"}}}, NAMESPACE)

    with pytest.raises(Conflict, match="the object has been modified"):
        await api.update(LEDGERS, "ledger-a", old.document, NAMESPACE)
    stale = {"metadata": {"resourceVersion": old.metadata.resource_version}, "spec": {"seats": []}}
    with pytest.raises(Conflict):
        await api.patch(LEDGERS, "ledger-a", stale, NAMESPACE)


async def test_a_json_patch_with_a_failed_test_changes_nothing(api: KubeApi) -> None:
    await api.create(LEDGERS, ledger(), NAMESPACE)
    passing = {"op": "test", "path": "/spec/claimName", "value": "claim-of-ledger-a"}
    add = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}

    changed = await api.patch(LEDGERS, "ledger-a", [passing, add], NAMESPACE, patch_type=PatchType.JSON)
    failing = {**passing, "value": "another"}
    with pytest.raises(Invalid):
        await api.patch(LEDGERS, "ledger-a", [failing, add], NAMESPACE, patch_type=PatchType.JSON)

    assert changed.document["metadata"]["labels"] == {"a": "b"}


async def test_status_and_spec_are_written_separately(api: KubeApi) -> None:
    await api.create(WORKLOADS, workload("worker"), NAMESPACE)
    both = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}}

    await api.patch(WORKLOADS, "worker", both, NAMESPACE, subresource="status")
    only_status = await api.get(WORKLOADS, "worker", NAMESPACE)
    await api.patch(WORKLOADS, "worker", {**both, "status": {"phase": "Running"}}, NAMESPACE)
    only_the_rest = await api.get(WORKLOADS, "worker", NAMESPACE)

    assert only_status.document["status"] == {"phase": "Failed"}
    assert "labels" not in only_status.document["metadata"]
    assert only_the_rest.document["status"] == {"phase": "Failed"}
    assert only_the_rest.document["metadata"]["labels"] == {"a": "b"}


async def test_a_delete_with_a_failed_precondition_is_a_conflict(api: KubeApi) -> None:
    made = await api.create(LEDGERS, ledger(), NAMESPACE)
    other = Preconditions(uid="7a1c0ba4-0000-4000-8000-000000000000")

    with pytest.raises(Conflict, match="UID in precondition"):
        await api.delete(LEDGERS, "ledger-a", NAMESPACE, preconditions=other)
    with pytest.raises(Conflict, match="ResourceVersion in precondition"):
        await api.delete(LEDGERS, "ledger-a", NAMESPACE, preconditions=Preconditions(resource_version="1"))
    meant = Preconditions(made.metadata.uid, made.metadata.resource_version)
    await api.delete(LEDGERS, "ledger-a", NAMESPACE, preconditions=meant)

    with pytest.raises(NotFound):
        await api.get(LEDGERS, "ledger-a", NAMESPACE)


async def test_a_finalizer_keeps_a_deleted_object(api: KubeApi) -> None:
    await api.create(LEDGERS, ledger(finalizers=["example.com/hold"]), NAMESPACE)

    held = await api.delete(LEDGERS, "ledger-a", NAMESPACE)
    await api.patch(LEDGERS, "ledger-a", {"metadata": {"finalizers": []}}, NAMESPACE)

    assert held is not None
    assert "deletionTimestamp" in held.document["metadata"]
    with pytest.raises(NotFound):
        await api.get(LEDGERS, "ledger-a", NAMESPACE)
