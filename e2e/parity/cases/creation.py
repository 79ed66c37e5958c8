"""Creates and reads."""

from __future__ import annotations

from typing import Any

from e2e.parity.objects import (
    CLAIMS,
    LEDGERS,
    NODES,
    NOT_SERVED,
    PODS,
    WORKLOADS,
    claim,
    ledger,
    pod,
    workload,
)
from e2e.parity.script import Script


async def the_response_is_the_stored_object(script: Script) -> None:
    for resource, body in ((LEDGERS, ledger()), (WORKLOADS, workload()), (CLAIMS, claim()), (PODS, pod())):
        created = await script.create(resource, body)
        read = await script.get(resource, body["metadata"]["name"])
        script.note(f"the same: {created == read}")


async def a_name_is_unique(script: Script) -> None:
    await script.create(LEDGERS, ledger())
    await script.create(LEDGERS, ledger())
    await script.create(PODS, pod())
    await script.create(PODS, pod())


async def an_invalid_object_with_an_existing_name_is_invalid(script: Script) -> None:
    await script.create(PODS, pod())
    await script.create(PODS, pod(containers=[]))


async def an_absent_object_is_not_found(script: Script) -> None:
    await script.get(LEDGERS, "nobody")
    await script.get(PODS, "nobody")
    await script.get(NODES, "nobody")


async def an_unserved_resource_is_not_found(script: Script) -> None:
    await script.get(NOT_SERVED, "nobody")
    await script.list_names(NOT_SERVED)


async def the_namespace_must_exist(script: Script) -> None:
    await script.create(LEDGERS, ledger(), "parity-nowhere")
    await script.create(PODS, pod(), "parity-nowhere")


async def a_body_with_another_namespace_is_refused(script: Script) -> None:
    await script.create(LEDGERS, ledger(namespace="default"))
    await script.create(PODS, pod(metadata={"namespace": "default"}))


async def a_body_of_another_kind_is_refused(script: Script) -> None:
    await script.create(LEDGERS, ledger() | {"kind": "Workload"})
    await script.create(PODS, pod() | {"kind": "Node"})
    await script.create(PODS, pod() | {"apiVersion": "v2"})


async def a_version_on_a_new_object_is_refused(script: Script) -> None:
    await script.create(LEDGERS, ledger(resourceVersion="7"))
    await script.create(PODS, pod(metadata={"resourceVersion": "7"}))


async def the_name_is_required_and_must_be_a_subdomain(script: Script) -> None:
    for name in ("", "Upper", "under_score", "-dash", "a" * 254, "dots.and-dashes.1"):
        await script.create(LEDGERS, {**ledger(), "metadata": {"name": name}})
        await script.create(PODS, pod(name))


async def fields_that_only_the_server_sets_are_ignored(script: Script) -> None:
    given: dict[str, Any] = {
        "uid": "7a1c0ba4-0000-4000-8000-000000000000",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 7,
    }
    for resource, body in (
        (LEDGERS, ledger(**given)),
        (WORKLOADS, workload(metadata=given)),
        (PODS, pod(metadata=given)),
    ):
        created = await script.create(resource, body)
        if created is not None:
            metadata = created["metadata"]
            kept = [key for key, value in given.items() if metadata.get(key) == value]
            script.note(f"kept: {kept}")


async def empty_metadata_is_omitted(script: Script) -> None:
    empty: dict[str, Any] = {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    for resource, body in (
        (LEDGERS, ledger(**empty)),
        (WORKLOADS, workload(metadata=empty)),
        (PODS, pod(metadata=empty)),
    ):
        created = await script.create(resource, body)
        script.note(f"kept: {[key for key in empty if created and key in created['metadata']]}")


async def a_node_is_created_with_its_status(script: Script) -> None:
    status = {
        "allocatable": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Made"}],
    }
    body = {"metadata": {"name": "parity-node"}, "spec": {}, "status": status}
    await script.create(NODES, body)
    await script.delete(NODES, "parity-node")


async def the_status_of_a_new_object_is_dropped(script: Script) -> None:
    await script.create(WORKLOADS, workload() | {"status": {"phase": "Running"}})
    await script.create(CLAIMS, claim() | {"status": {"reservedFor": []}})
    await script.create(PODS, pod() | {"status": {"phase": "Running"}})
