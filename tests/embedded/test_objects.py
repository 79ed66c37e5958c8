"""The production client creates, reads, changes and deletes over the socket as on any cluster."""

from __future__ import annotations

import pytest

from informers.api import PatchType, Preconditions, Selectors
from informers.client.transport import KubeApi
from informers.errors import AlreadyExists, Conflict, Invalid, NotFound
from simulation.cluster.workloads import workload
from simulation.demo.workplace import LEDGERS, NODES, PODS, WORKLOADS
from simulation.embedded.cluster import EmbeddedCluster
from tests.embedded.asking import NAMESPACE, ledger, pod

pytestmark = pytest.mark.anyio


async def test_what_is_created_is_there_with_what_the_server_sets(api: KubeApi) -> None:
    created = await api.create(WORKLOADS, workload("worker"), NAMESPACE, strict=True)
    found = await api.get(WORKLOADS, "worker", NAMESPACE)

    assert found == created
    assert found.document["metadata"]["generation"] == 1
    assert found.document["spec"]["accelerator"]["type"] == "GPU"


async def test_a_name_is_taken_once(api: KubeApi) -> None:
    await api.create(LEDGERS, ledger(), NAMESPACE)

    with pytest.raises(AlreadyExists):
        await api.create(LEDGERS, ledger(), NAMESPACE)


async def test_what_breaks_a_rule_is_refused(api: KubeApi) -> None:
    with pytest.raises(Invalid, match=r"spec.modelID: Required value"):
        await api.create(WORKLOADS, workload("worker", modelID=None), NAMESPACE)


async def test_a_list_comes_in_pages_that_show_one_moment(api: KubeApi) -> None:
    for name in ("c", "a", "b"):
        await api.create(LEDGERS, ledger(name), NAMESPACE)

    first = await api.list_page(LEDGERS, NAMESPACE, limit=2)
    await api.delete(LEDGERS, "c", NAMESPACE)
    second = await api.list_page(LEDGERS, NAMESPACE, limit=2, continue_token=first.continue_token)

    names = [[item.metadata.name for item in page.items] for page in (first, second)]
    assert names == [["a", "b"], ["c"]]
    assert first.resource_version == second.resource_version
    assert not second.continue_token


async def test_selectors_choose(cluster: EmbeddedCluster, api: KubeApi) -> None:
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


async def test_a_write_on_an_old_version_meets_a_conflict(api: KubeApi) -> None:
    old = await api.create(LEDGERS, ledger(), NAMESPACE)
    await api.patch(LEDGERS, "ledger-a", {"metadata": {"labels": {"a": "b"}}}, NAMESPACE)

    with pytest.raises(Conflict, match="the object has been modified"):
        await api.update(LEDGERS, "ledger-a", old.document, NAMESPACE)
    stale = {"metadata": {"resourceVersion": old.metadata.resource_version}, "spec": {"seats": []}}
    with pytest.raises(Conflict):
        await api.patch(LEDGERS, "ledger-a", stale, NAMESPACE)


async def test_a_json_patch_tests_before_it_changes(api: KubeApi) -> None:
    await api.create(LEDGERS, ledger(), NAMESPACE)
    passing = {"op": "test", "path": "/spec/claimName", "value": "claim-of-ledger-a"}
    add = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}

    changed = await api.patch(LEDGERS, "ledger-a", [passing, add], NAMESPACE, patch_type=PatchType.JSON)
    failing = {**passing, "value": "another"}
    with pytest.raises(Invalid):
        await api.patch(LEDGERS, "ledger-a", [failing, add], NAMESPACE, patch_type=PatchType.JSON)

    assert changed.document["metadata"]["labels"] == {"a": "b"}


async def test_status_and_the_rest_are_written_apart(api: KubeApi) -> None:
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


async def test_a_deletion_holds_only_for_what_was_meant(api: KubeApi) -> None:
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


async def test_a_finalizer_holds_what_is_deleted(api: KubeApi) -> None:
    await api.create(LEDGERS, ledger(finalizers=["example.com/hold"]), NAMESPACE)

    held = await api.delete(LEDGERS, "ledger-a", NAMESPACE)
    await api.patch(LEDGERS, "ledger-a", {"metadata": {"finalizers": []}}, NAMESPACE)

    assert held is not None
    assert "deletionTimestamp" in held.document["metadata"]
    with pytest.raises(NotFound):
        await api.get(LEDGERS, "ledger-a", NAMESPACE)
