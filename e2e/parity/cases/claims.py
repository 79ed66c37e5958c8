"""ResourceClaims: the spec is immutable, and an allocation is set or cleared."""

from __future__ import annotations

from typing import Any

from e2e.parity.objects import CLAIMS, PODS, allocation, claim, pod
from e2e.parity.script import Script


async def _set(script: Script, **status: Any) -> None:
    await script.patch(CLAIMS, "claim-a", {"status": status}, subresource="status")


async def the_spec_is_immutable(script: Script) -> None:
    await script.create(CLAIMS, claim())
    await script.patch(CLAIMS, "claim-a", {"spec": {"devices": {"requests": []}}})
    await script.patch(CLAIMS, "claim-a", {"metadata": {"labels": {"a": "b"}}})


async def eight_alternatives_are_allowed(script: Script) -> None:
    await script.create(CLAIMS, claim(alternatives=8))
    await script.create(CLAIMS, claim("claim-b", alternatives=9))
    await script.create(CLAIMS, claim("claim-c", alternatives=0))


async def an_allocation_is_set_and_cleared_but_not_edited(script: Script) -> None:
    async with script.watching(CLAIMS, sentinel=claim()):
        await script.create(CLAIMS, claim())
        await _set(script, allocation=allocation())
        await _set(script, allocation=allocation())
        await _set(script, allocation=allocation("gpu-1"))
        await _set(script, allocation=None)
        await _set(script, allocation=allocation("gpu-1"))


async def a_reservation_needs_an_allocation(script: Script) -> None:
    created = await script.create(PODS, pod(nodeName="nowhere"))
    assert created is not None
    consumer = {"resource": "pods", "name": "pod", "uid": created["metadata"]["uid"]}
    await script.create(CLAIMS, claim())
    await script.patch(CLAIMS, "claim-a", {"status": {"reservedFor": [consumer]}}, subresource="status")


async def a_terminating_claim_gets_no_more_reservations(script: Script) -> None:
    await script.create(CLAIMS, claim(finalizers=["example.com/hold"]))
    await _set(script, allocation=allocation())
    await script.delete(CLAIMS, "claim-a")
    consumer = {"resource": "pods", "name": "pod", "uid": "7a1c0ba4-0000-4000-8000-000000000000"}
    await _set(script, reservedFor=[consumer])
    await _set(script, allocation=None)
    await script.patch(CLAIMS, "claim-a", {"metadata": {"finalizers": []}})


async def the_claim_status_is_a_separate_subresource(script: Script) -> None:
    await script.create(CLAIMS, claim())
    await script.patch(CLAIMS, "claim-a", {"status": {"allocation": allocation()}})
    await script.patch(
        CLAIMS,
        "claim-a",
        {
            "status": {"allocation": allocation()},
            "metadata": {"labels": {"a": "b"}, "finalizers": ["x.io/y"]},
        },
        subresource="status",
    )
