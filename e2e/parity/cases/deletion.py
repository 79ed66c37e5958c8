"""Deletes: preconditions, finalizers, responses, and watch events."""

from __future__ import annotations

from e2e.parity.objects import (
    CLAIMS,
    DEVICE_CLASSES,
    LEASES,
    LEDGERS,
    NAMESPACES,
    PODS,
    SLICES,
    WORKLOADS,
    AnyResource,
    claim,
    ledger,
    pod,
    workload,
)
from e2e.parity.script import Document, Script

_OTHER = "7a1c0ba4-0000-4000-8000-000000000000"
_FINALIZER = "openrl.io/placement"


async def an_object_without_finalizers_is_removed_at_once(script: Script) -> None:
    async with script.watching(LEDGERS, sentinel=ledger()):
        await script.create(LEDGERS, ledger())
        await script.delete(LEDGERS, "ledger-a")
        await script.get(LEDGERS, "ledger-a")
        await script.delete(LEDGERS, "ledger-a")
    await script.create(CLAIMS, claim())
    await script.delete(CLAIMS, "claim-a")


async def preconditions_are_checked(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"labels": {"a": "b"}}})
    await script.delete(LEDGERS, "ledger-a", uid=_OTHER)
    await script.delete(LEDGERS, "ledger-a", uid=uid, version=version)
    await script.delete(LEDGERS, "ledger-a", version="1")
    await script.delete(LEDGERS, "ledger-a", uid=uid)


async def a_finalizer_blocks_the_removal(script: Script) -> None:
    async with script.watching(WORKLOADS, sentinel=workload()):
        await script.create(WORKLOADS, workload(metadata={"finalizers": [_FINALIZER, "example.com/other"]}))
        await script.delete(WORKLOADS, "worker")
        await script.delete(WORKLOADS, "worker")
        await script.create(WORKLOADS, workload())
        await script.patch(WORKLOADS, "worker", {"status": {"phase": "Failed"}}, subresource="status")
        await script.patch(WORKLOADS, "worker", {"metadata": {"labels": {"a": "b"}}})
        await script.patch(WORKLOADS, "worker", {"metadata": {"finalizers": [_FINALIZER]}})
        await script.patch(WORKLOADS, "worker", {"metadata": {"finalizers": []}})
        await script.get(WORKLOADS, "worker")


async def a_finalizer_blocks_the_removal_of_a_claim(script: Script) -> None:
    async with script.watching(CLAIMS, sentinel=claim()):
        await script.create(CLAIMS, claim(finalizers=["example.com/other"]))
        await script.delete(CLAIMS, "claim-a")
        await script.patch(CLAIMS, "claim-a", {"metadata": {"finalizers": None}})


async def a_terminating_object_gets_no_new_finalizer(script: Script) -> None:
    await script.create(LEDGERS, ledger(finalizers=[_FINALIZER]))
    await script.delete(LEDGERS, "ledger-a")
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"finalizers": [_FINALIZER, "example.com/late"]}})
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"finalizers": ["example.com/late"]}})
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"finalizers": []}})


async def a_deletion_cannot_be_reverted(script: Script) -> None:
    await script.create(LEDGERS, ledger(finalizers=[_FINALIZER]))
    await script.delete(LEDGERS, "ledger-a")
    gone = {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}
    await script.patch(LEDGERS, "ledger-a", {"metadata": gone})
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"finalizers": []}})


async def preconditions_are_checked_on_a_terminating_object(script: Script) -> None:
    created = await script.create(LEDGERS, ledger(finalizers=[_FINALIZER]))
    assert created is not None
    await script.delete(LEDGERS, "ledger-a")
    await script.delete(LEDGERS, "ledger-a", uid=_OTHER)
    await script.delete(LEDGERS, "ledger-a", version=created["metadata"]["resourceVersion"])
    await script.delete(LEDGERS, "ledger-a", uid=created["metadata"]["uid"])
    stale = {"resourceVersion": created["metadata"]["resourceVersion"], "finalizers": []}
    await script.patch(LEDGERS, "ledger-a", {"metadata": stale})
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"finalizers": []}})


async def a_recreated_object_has_a_new_uid(script: Script) -> None:
    first = await script.create(LEDGERS, ledger())
    assert first is not None
    await script.delete(LEDGERS, "ledger-a")
    await script.create(LEDGERS, ledger())
    await script.delete(LEDGERS, "ledger-a", uid=first["metadata"]["uid"])
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"uid": first["metadata"]["uid"]}})
    both = {key: first["metadata"][key] for key in ("uid", "resourceVersion")}
    await script.patch(LEDGERS, "ledger-a", {"metadata": {**both, "labels": {"a": "b"}}})


async def a_status_write_with_an_old_uid_is_a_conflict(script: Script) -> None:
    first = await script.create(WORKLOADS, workload())
    assert first is not None
    await script.delete(WORKLOADS, "worker")
    await script.create(WORKLOADS, workload())
    both = {key: first["metadata"][key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": both, "status": {"phase": "Failed"}}
    await script.patch(WORKLOADS, "worker", patch, subresource="status")


async def some_kinds_respond_with_the_deleted_object(script: Script) -> None:
    device_class = {"metadata": {"name": "parity"}, "spec": {}}
    pool = {"name": "parity", "generation": 1, "resourceSliceCount": 1}
    described = {
        "metadata": {"name": "parity"},
        "spec": {"driver": "parity.example.com", "nodeName": "x", "pool": pool},
    }
    deletable: list[tuple[AnyResource, Document]] = [
        (PODS, pod()),
        (CLAIMS, claim()),
        (WORKLOADS, workload()),
        (LEASES, {"metadata": {"name": "lease-a"}, "spec": {}}),
        (DEVICE_CLASSES, device_class),
        (SLICES, described),
    ]
    for resource, body in deletable:
        await script.create(resource, body)
        await script.delete(resource, body["metadata"]["name"])


async def a_terminating_namespace_accepts_no_new_objects(script: Script) -> None:
    finalizer = {"metadata": {"name": "parity", "finalizers": ["example.com/other"]}}
    await script.create(NAMESPACES, finalizer)
    await script.create(LEDGERS, ledger(), "parity")
    await script.delete(NAMESPACES, "parity")
    await script.create(LEDGERS, ledger("ledger-b"), "parity")
    await script.create(PODS, pod(), "parity")
    await script.create(CLAIMS, {"metadata": {"name": "claim-a"}}, "parity")
    await script.create(NAMESPACES, finalizer)
    await script.patch(NAMESPACES, "parity", {"metadata": {"finalizers": None}})


async def the_phase_of_a_namespace_matches_its_deletion(script: Script) -> None:
    finalizer = {"metadata": {"name": "phases", "finalizers": ["example.com/other"]}}
    await script.create(NAMESPACES, finalizer)
    for status in ({"phase": "Terminating"}, {"phase": "Active"}):
        await script.patch(NAMESPACES, "phases", {"status": status}, subresource="status")
    await script.delete(NAMESPACES, "phases")
    for phase in ("Active", "Terminating"):
        await script.patch(NAMESPACES, "phases", {"status": {"phase": phase}}, subresource="status")
    await script.patch(NAMESPACES, "phases", {"metadata": {"finalizers": None}})


async def namespace_names_are_restricted(script: Script) -> None:
    await script.create(NAMESPACES, {"metadata": {"name": "a.b"}})
    await script.create(NAMESPACES, {"metadata": {"name": "a" * 64}})
    await script.delete(NAMESPACES, "default", uid=_OTHER)
