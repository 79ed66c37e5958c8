"""Watches: what they show, from where, and how they end."""

from __future__ import annotations

from e2e.parity.objects import LEDGERS, PODS, WORKLOADS, ledger, pod, workload
from e2e.parity.script import Script

_MANAGED = "openrl.io/managed=true"


async def every_change_is_shown_and_no_other(script: Script) -> None:
    async with script.watching(WORKLOADS, sentinel=workload()):
        await script.create(WORKLOADS, workload())
        await script.patch(WORKLOADS, "worker", {"metadata": {"labels": {"a": "b"}}})
        await script.patch(WORKLOADS, "worker", {"metadata": {"labels": {"a": "b"}}})
        await script.patch(WORKLOADS, "worker", {"status": {"phase": "Pending"}}, subresource="status")
        await script.patch(WORKLOADS, "worker", {"status": {"phase": "Pending"}}, subresource="status")
        await script.patch(WORKLOADS, "worker", {"spec": {"role": "sampler"}})
        await script.delete(WORKLOADS, "worker")


async def what_comes_to_match_is_added_and_what_ceases_to_is_deleted(script: Script) -> None:
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


async def fields_select_likewise(script: Script) -> None:
    async with script.watching(PODS, sentinel=pod(), fields="status.phase=Pending"):
        await script.create(PODS, pod())
        await script.patch(PODS, "pod", {"status": {"phase": "Running"}}, subresource="status")
        await script.delete(PODS, "pod")


async def from_zero_everything_that_is_there_is_added_first(script: Script) -> None:
    for name in ("ledger-b", "ledger-a"):
        await script.create(LEDGERS, ledger(name))
    await script.watch_from(LEDGERS, "0", until=["ledger-a", "ledger-b"])
    await script.watch_from(LEDGERS, "", until=["ledger-a", "ledger-b"])


async def from_a_version_only_what_came_after_is_shown(script: Script) -> None:
    first = await script.create(LEDGERS, ledger("ledger-a"))
    assert first is not None
    await script.create(WORKLOADS, workload("ledger-a"))
    await script.create(LEDGERS, ledger("ledger-b"))
    await script.watch_from(LEDGERS, first["metadata"]["resourceVersion"], until=["ledger-a", "ledger-b"])


async def from_a_version_that_is_forgotten_it_is_gone(script: Script) -> None:
    await script.create(LEDGERS, ledger())
    await script.watch_from(LEDGERS, "1")


async def from_a_version_to_come_nothing_is_shown(script: Script) -> None:
    await script.create(LEDGERS, ledger())
    await script.watch_from(LEDGERS, "999999999999", until=["ledger-a"])


async def from_a_version_that_is_no_number_it_is_refused(script: Script) -> None:
    await script.watch_from(LEDGERS, "nonsense")
