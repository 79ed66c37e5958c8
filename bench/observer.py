"""The watches of the benchmark: they feed a `Timeline`, and scenarios wait for its states.

They do not use the controller's informers or decoders. They decode only the fields that they need, because
the benchmark shares the CPUs with the contenders.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import msgspec
from msgspec import Struct

from bench.client import Client
from bench.errors import NeverHappened, WatchEnded
from bench.timeline import Timeline, WorkerState
from e2e.harness.workloads import LEDGERS, WORKLOADS

PLACED, UNSCHEDULABLE = "Placed", "Unschedulable"


class Name(Struct, frozen=True):
    """`metadata`."""

    name: str = ""


class Condition(Struct, frozen=True):
    """A condition of a Workload."""

    type: str
    status: str
    reason: str = ""


class Status(Struct, frozen=True, rename="camel"):
    """`Workload.status`."""

    phase: str = ""
    node_name: str = ""
    conditions: list[Condition] = []


class Worker(Struct, frozen=True):
    """A Workload."""

    metadata: Name
    status: Status = Status()


class Seat(Struct, frozen=True):
    """A seat."""

    workload: str


class Seats(Struct, frozen=True):
    """`ClaimLedger.spec`."""

    seats: list[Seat] = []


class Ledger(Struct, frozen=True):
    """A ClaimLedger."""

    metadata: Name
    spec: Seats = Seats()


class WorkerEvent(Struct, frozen=True):
    """An event of the Workload watch."""

    type: str
    object: Worker


class LedgerEvent(Struct, frozen=True):
    """An event of the ledger watch."""

    type: str
    object: Ledger


class Observer:
    """A timeline that the watches update, and waits on it."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self._changed = anyio.Event()

    def __repr__(self) -> str:
        return f"<Observer workers={len(self.timeline.present)} ledgers={len(self.timeline.seats)}>"

    async def until(self, condition: Callable[[], bool], state: str, *, timeout_seconds: float) -> None:
        """Wait until the condition holds, checked after every event. Raises `NeverHappened`."""
        with anyio.move_on_after(timeout_seconds):
            while not condition():
                await self._changed.wait()
            return
        raise NeverHappened(f"{state}: not within {timeout_seconds:g} s")

    async def watch_workers(self, client: Client, version: str) -> None:
        """Watch Workloads until cancelled."""
        decode = msgspec.json.Decoder(WorkerEvent).decode
        async for line in client.watch(WORKLOADS, version):
            seconds = now()
            event = decode(line)
            _require_change(event.type, WORKLOADS)
            self.timeline.see_worker(event.type, _worker_state(event.object), seconds)
            self._notify()

    async def watch_ledgers(self, client: Client, version: str) -> None:
        """Watch ledgers until cancelled."""
        decode = msgspec.json.Decoder(LedgerEvent).decode
        async for line in client.watch(LEDGERS, version):
            seconds = now()
            event = decode(line)
            _require_change(event.type, LEDGERS)
            ledger = event.object
            workers = [seat.workload for seat in ledger.spec.seats]
            self.timeline.see_ledger(event.type, ledger.metadata.name, workers, seconds)
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def now() -> float:
    """Return monotonic seconds with high resolution: the event loop's clock counts whole milliseconds."""
    return time.perf_counter()


@asynccontextmanager
async def observing(client: Client) -> AsyncIterator[Observer]:
    """Watch during the block. The workers' namespace must be empty at the start."""
    observer = Observer()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(observer.watch_workers, client, await client.version(WORKLOADS))
        tasks.start_soon(observer.watch_ledgers, client, await client.version(LEDGERS))
        yield observer
        tasks.cancel_scope.cancel()


def _require_change(event: str, path: str) -> None:
    if event not in {"ADDED", "MODIFIED", "DELETED"}:
        raise WatchEnded(f"the watch of {path} received {event}")


def _worker_state(worker: Worker) -> WorkerState:
    status = worker.status
    refused = any((c.type, c.status, c.reason) == (PLACED, "False", UNSCHEDULABLE) for c in status.conditions)
    return WorkerState(worker.metadata.name, status.phase, status.node_name, refused)
