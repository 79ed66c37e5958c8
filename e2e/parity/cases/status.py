"""The status subresource, which is separate from the rest of an object."""

from __future__ import annotations

from e2e.parity.objects import CLAIMS, LEDGERS, PODS, WORKLOADS, allocation, claim, ledger, pod, workload
from e2e.parity.script import Script

_RUNNING = {"phase": "Running", "claimName": "claim-a", "unknown": {"kept": True}}


async def a_status_patch_changes_only_the_status(script: Script) -> None:
    await script.create(WORKLOADS, workload(metadata={"labels": {"a": "b"}}))
    patch = {
        "status": _RUNNING,
        "spec": {"role": "sampler"},
        "metadata": {"labels": {"c": "d"}, "finalizers": ["openrl.io/placement"]},
    }
    await script.patch(WORKLOADS, "worker", patch, subresource="status")


async def a_patch_of_the_object_does_not_change_its_status(script: Script) -> None:
    await script.create(WORKLOADS, workload())
    await script.patch(WORKLOADS, "worker", {"status": {"phase": "Running"}})
    await script.patch(WORKLOADS, "worker", {"status": _RUNNING}, subresource="status")
    await script.patch(
        WORKLOADS, "worker", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}}
    )
    await script.patch(WORKLOADS, "worker", {"status": None})


async def an_equal_status_keeps_the_version(script: Script) -> None:
    await script.create(WORKLOADS, workload())
    await script.patch(WORKLOADS, "worker", {"status": _RUNNING}, subresource="status")
    await script.patch(WORKLOADS, "worker", {"status": _RUNNING}, subresource="status")
    await script.patch(WORKLOADS, "worker", {"metadata": {"labels": {"a": "b"}}}, subresource="status")
    await script.patch(WORKLOADS, "worker", {"status": {"unknown": None}}, subresource="status")
    await script.patch(WORKLOADS, "worker", {"status": None}, subresource="status")


async def a_status_patch_can_be_conditional(script: Script) -> None:
    created = await script.create(WORKLOADS, workload())
    assert created is not None
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    conditional = {"metadata": {"uid": uid, "resourceVersion": version}, "status": _RUNNING}
    await script.patch(WORKLOADS, "worker", conditional, subresource="status")
    await script.patch(WORKLOADS, "worker", conditional, subresource="status")
    other = {"metadata": {"uid": "7a1c0ba4-0000-4000-8000-000000000000"}, "status": {"phase": "Failed"}}
    await script.patch(WORKLOADS, "worker", other, subresource="status")
    await script.create(PODS, pod())
    await script.patch(PODS, "pod", {**other, "status": {"phase": "Failed"}}, subresource="status")
    await script.create(CLAIMS, claim())
    await script.patch(
        CLAIMS, "claim-a", {**other, "status": {"allocation": allocation()}}, subresource="status"
    )


async def a_status_update_changes_only_the_status(script: Script) -> None:
    created = await script.create(WORKLOADS, workload())
    assert created is not None
    changed = {**created, "status": _RUNNING, "spec": {**created["spec"], "role": "sampler"}}
    await script.update(WORKLOADS, "worker", changed, subresource="status")
    await script.update(WORKLOADS, "worker", changed, subresource="status")


async def the_status_schema_is_enforced(script: Script) -> None:
    await script.create(WORKLOADS, workload())
    for status in (
        {"phase": "Dancing"},
        {"conditions": [{"status": "True"}]},
        {"conditions": [{"type": "Placed"}, {"type": "Placed"}]},
        {"conditions": [{"type": "Placed", "status": "Perhaps"}]},
        {"deviceCount": "two"},
        {"conditions": [{"type": "Placed", "status": "True", "ours": 1}]},
    ):
        await script.patch(WORKLOADS, "worker", {"status": status}, subresource="status")


async def some_kinds_have_no_status_subresource(script: Script) -> None:
    await script.create(LEDGERS, ledger())
    await script.patch(LEDGERS, "ledger-a", {"status": {"a": "b"}}, subresource="status")
    await script.patch(LEDGERS, "ledger-a", {"status": {"a": "b"}})


async def the_status_of_a_pod_is_a_separate_subresource(script: Script) -> None:
    await script.create(PODS, pod())
    await script.patch(PODS, "pod", {"status": {"phase": "Running"}})
    await script.patch(
        PODS,
        "pod",
        {"status": {"phase": "Failed"}, "spec": {"nodeName": "nowhere"}},
        subresource="status",
    )
