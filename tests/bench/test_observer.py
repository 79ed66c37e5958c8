from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import msgspec
import pytest

from bench.client import Client
from bench.errors import NeverHappened, WatchEnded
from bench.observer import Observer
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


class Lines:
    """A fake client whose watch yields these events and ends."""

    def __init__(self, *events: tuple[str, dict[str, Any]]) -> None:
        self._events = events

    async def watch(self, path: str, version: str) -> AsyncIterator[bytes]:
        for event, object_ in self._events:
            yield msgspec.json.encode({"type": event, "object": object_})
        raise WatchEnded(f"the watch of {path} after {version} ended")


def workload(name: str, **status: object) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": "1"}, "spec": {"role": "trainer"}, "status": status}


async def follow_workers(observer: Observer, *events: tuple[str, dict[str, Any]]) -> None:
    with pytest.raises(WatchEnded):
        await observer.watch_workers(cast("Client", Lines(*events)), "1")


async def test_workload_events_update_workers() -> None:
    observer = Observer()
    refused = [{"type": "Placed", "status": "False", "reason": "Unschedulable", "message": "no"}]
    await follow_workers(
        observer,
        ("ADDED", workload("new")),
        ("ADDED", workload("running", phase="Running", nodeName="node-1")),
        ("ADDED", workload("refused", phase="Pending", conditions=refused)),
    )

    assert observer.timeline.present == {"new", "running", "refused"}
    assert observer.timeline.running == {"running": "node-1"}
    assert observer.timeline.refused == {"refused"}


async def test_ledger_events_update_seats() -> None:
    observer = Observer()
    ledger = {"metadata": {"name": "ledger"}, "spec": {"claimName": "claim", "seats": [{"workload": "one"}]}}
    with pytest.raises(WatchEnded):
        await observer.watch_ledgers(cast("Client", Lines(("ADDED", ledger))), "1")

    assert observer.timeline.seats == {"ledger": frozenset({"one"})}


async def test_an_error_event_ends_the_watch() -> None:
    observer = Observer()
    gone = {"kind": "Status", "metadata": {}, "status": {}, "code": 410}
    with pytest.raises(WatchEnded, match="ERROR"):
        await observer.watch_workers(cast("Client", Lines(("ERROR", gone))), "1")


async def test_a_wait_ends_with_the_expected_event() -> None:
    observer = Observer()

    async def wait() -> None:
        await observer.until(lambda: "one" in observer.timeline.present, "one exists", timeout_seconds=60)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(follow_workers, observer, ("ADDED", workload("one")))

    assert anyio.current_time() < 60


async def test_the_timeout_error_names_the_expected_state() -> None:
    with pytest.raises(NeverHappened, match="one exists: not within 60 s"):
        await Observer().until(lambda: False, "one exists", timeout_seconds=60)
