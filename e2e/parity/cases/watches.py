"""Watches: their events, start versions and ends."""

from __future__ import annotations

from e2e.parity.objects import LEDGERS, PODS, WORKLOADS, ledger, pod, workload
from e2e.parity.script import Script

_MANAGED = "openrl.io/managed=true"


async def every_change_is_sent_once(script: Script) -> None:
    async with script.watching(WORKLOADS, sentinel=workload()):
        await script.create(WORKLOADS, workload())
        await script.patch(WORKLOADS, "worker", {"metadata": {"labels": {"a": "b"}}})
        await script.patch(WORKLOADS, "worker", {"metadata": {"labels": {"a": "b"}}})
        await script.patch(WORKLOADS, "worker", {"status": {"phase": "Pending"}}, subresource="status")
        await script.patch(WORKLOADS, "worker", {"status": {"phase": "Pending"}}, subresource="status")
        await script.patch(WORKLOADS, "worker", {"spec": {"role": "sampler"}})
        await script.delete(WORKLOADS, "worker")


async def objects_are_added_when_they_start_and_deleted_when_they_stop_to_match(script: Script) -> None:
    managed = {"openrl.io/managed": "true"}
    sentinel = ledger(labels=managed)
    async with script.watching(LEDGERS, sentinel=sentinel, labels=_MANAGED):
        await script.create(LEDGERS, ledger())
        await script.patch(LEDGERS, "ledger-a", {"metadata": {"labels": managed}})
        await script.patch(LEDGERS, "ledger-a", {"spec": {"seats": [{"workload": "x"}]}})
        await script.patch(
            LEDGERS,
            "ledger-a",
            {"metadata": {"labels": {"openrl.io/managed": None}}, "spec": {"seats": []}},
        )
        await script.patch(LEDGERS, "ledger-a", {"metadata": {"annotations": {"a": "b"}}})
        await script.patch(LEDGERS, "ledger-a", {"metadata": {"labels": managed}})
        await script.delete(LEDGERS, "ledger-a")


async def field_selectors_work_on_watches(script: Script) -> None:
    async with script.watching(PODS, sentinel=pod(), fields="status.phase=Pending"):
        await script.create(PODS, pod())
        await script.patch(PODS, "pod", {"status": {"phase": "Running"}}, subresource="status")
        await script.delete(PODS, "pod")


async def a_watch_from_zero_starts_with_existing_objects(script: Script) -> None:
    for name in ("ledger-b", "ledger-a"):
        await script.create(LEDGERS, ledger(name))
    await script.watch_from(LEDGERS, "0", until=["ledger-a", "ledger-b"])
    await script.watch_from(LEDGERS, "", until=["ledger-a", "ledger-b"])


async def a_watch_from_a_version_sends_later_changes(script: Script) -> None:
    first = await script.create(LEDGERS, ledger("ledger-a"))
    assert first is not None
    await script.create(WORKLOADS, workload("ledger-a"))
    await script.create(LEDGERS, ledger("ledger-b"))
    await script.watch_from(LEDGERS, first["metadata"]["resourceVersion"], until=["ledger-a", "ledger-b"])


async def a_watch_from_a_compacted_version_is_gone(script: Script) -> None:
    await script.create(LEDGERS, ledger())
    await script.watch_from(LEDGERS, "1")


async def a_watch_from_a_future_version_sends_nothing(script: Script) -> None:
    await script.create(LEDGERS, ledger())
    await script.watch_from(LEDGERS, "999999999999", until=["ledger-a"])


async def a_watch_from_an_invalid_version_is_refused(script: Script) -> None:
    await script.watch_from(LEDGERS, "nonsense")
