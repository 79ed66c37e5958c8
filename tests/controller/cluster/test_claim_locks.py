"""Claim locks: one holder at a time, in order of arrival; no holder blocks the next one indefinitely."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import NoReturn, cast

import anyio
import anyio.lowlevel
import pytest

from controller.cluster.claim_locks import HOLD_SECONDS, ClaimLocks
from ledger.api import LedgerApi
from ledger.booking import SeatBook
from ledger.seat_rules import SeatRequest
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


class Users:
    """Workers that use the locks of one process, and which of them hold one."""

    def __init__(self) -> None:
        self.locks = ClaimLocks()
        self.holders: list[str] = []
        self.granted: list[str] = []
        self.overlaps: list[list[str]] = []

    async def use(self, name: str, gate: anyio.Event, claim: str = "claim-a") -> None:
        async with self.locks.hold(claim):
            self.granted.append(name)
            self.holders.append(name)
            if len(self.holders) > 1:
                self.overlaps.append(list(self.holders))
            await gate.wait()
            self.holders.remove(name)


def opened() -> anyio.Event:
    gate = anyio.Event()
    gate.set()
    return gate


async def test_a_lock_has_one_holder_at_a_time_in_order_of_arrival() -> None:
    users, gate = Users(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        for name in ("first", "second", "third"):
            tasks.start_soon(users.use, name, gate)
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["first"]
        gate.set()
    assert users.granted == ["first", "second", "third"]
    assert users.overlaps == []
    assert users.locks._locks == {}


class Reached(Exception):
    """A call of the seat book has reached its first request."""


class RecordingApi:
    def __init__(self) -> None:
        self.reached: list[str] = []

    def cached(self, name: str) -> NoReturn:
        self.reached.append(name)
        raise Reached


@pytest.mark.parametrize("call", ["join", "create", "repair", "release"])
async def test_every_call_that_writes_seats_holds_the_lock_of_its_claim(call: str) -> None:
    locks, api = ClaimLocks(), RecordingApi()
    book = SeatBook(cast("LedgerApi", api), lambda: "new", locks.hold)
    request = cast(
        "SeatRequest", SimpleNamespace(recorded_assignment_id="", workload="w", workload_uid="uid-w")
    )
    arguments = {"recheck": None} if call in {"join", "repair"} else {}
    write_seats = partial(getattr(book, call), **arguments)

    async def write(claim: str) -> None:
        with pytest.raises(Reached):
            await write_seats(claim, request)

    async with anyio.create_task_group() as tasks, locks.hold("claim-a"):
        tasks.start_soon(write, "claim-a")
        tasks.start_soon(write, "claim-b")
        await anyio.wait_all_tasks_blocked()
        assert api.reached == ["ledger-b"]
    assert api.reached == ["ledger-b", "ledger-a"]


async def test_locks_of_other_claims_are_granted_at_once() -> None:
    users, gate = Users(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(users.use, "one", gate, "claim-a")
        tasks.start_soon(users.use, "other", gate, "claim-b")
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["one", "other"]
        gate.set()


async def test_a_holder_that_hangs_delays_the_next_one_by_a_bounded_time() -> None:
    users, hangs = Users(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(users.use, "hanging", hangs)
        await anyio.wait_all_tasks_blocked()
        began = anyio.current_time()
        await users.use("next", opened())
        assert anyio.current_time() - began == pytest.approx(HOLD_SECONDS)
        hangs.set()
    assert users.locks._locks == {}


async def test_a_long_queue_of_short_holders_never_overlaps() -> None:
    """Each holder is quick, but together they take longer than a single holder may."""
    users = Users()

    async def use(name: str) -> None:
        gate = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(users.use, name, gate)
            while name not in users.granted:
                await anyio.wait_all_tasks_blocked()
                await anyio.sleep(HOLD_SECONDS / 4)
            await anyio.sleep(HOLD_SECONDS / 2)
            gate.set()

    names = [f"user-{number}" for number in range(10)]
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(use, name)
    assert users.granted == names
    assert users.overlaps == []


async def test_only_one_waiter_proceeds_beside_a_holder_that_hangs() -> None:
    users, hangs, gate = Users(), anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(users.use, "hanging", hangs)
        for name in ("second", "third"):
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(users.use, name, gate)
        await anyio.sleep(HOLD_SECONDS * 1.5)
        assert users.holders == ["hanging", "second"]
        hangs.set()
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["second"], "the late release of the old holder does not release this one"
        gate.set()
    assert users.granted == ["hanging", "second", "third"]
    assert users.locks._locks == {}


async def test_a_waiter_that_arrives_after_a_late_release_waits_for_the_newer_holder() -> None:
    users, hangs, gate = Users(), anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(users.use, "hanging", hangs)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(users.use, "second", gate)
        await anyio.sleep(HOLD_SECONDS * 1.5)
        hangs.set()
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(users.use, "third", gate)
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["second"]
        gate.set()
    assert users.locks._locks == {}


async def test_a_cancelled_waiter_leaves_the_lock_of_others_in_place() -> None:
    """The holder releases and a waiter is cancelled at once; a later user must find the newer lock."""
    users, gate, last = Users(), anyio.Event(), anyio.Event()
    cancelled = anyio.CancelScope()

    async def use_twice() -> None:
        await users.use("first", gate)
        await users.use("first again", last)

    async def wait_until_cancelled() -> None:
        with cancelled:
            await users.use("waiter", gate)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use_twice)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(wait_until_cancelled)
        await anyio.wait_all_tasks_blocked()
        gate.set()
        cancelled.cancel()
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(users.use, "late", last)
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["first again"]
        last.set()
    assert users.overlaps == []
    assert users.locks._locks == {}
