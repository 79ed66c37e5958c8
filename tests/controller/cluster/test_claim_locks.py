"""Turns at one ledger: one at a time, in order, nobody kept from his work by one that hangs or gives up."""

from __future__ import annotations

from functools import partial
from typing import cast

import anyio
import anyio.lowlevel
import pytest

from controller.cluster.claim_locks import TURN_SECONDS, SeatBookInTurn
from ledger.api import LedgerApi
from ledger.book import SeatBook
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


class Users:
    """Workers that use the turns of one book, and who has the turn."""

    def __init__(self) -> None:
        self.book = SeatBookInTurn(cast("LedgerApi", None), lambda: "fresh")
        self.holders: list[str] = []
        self.came: list[str] = []
        self.together: list[list[str]] = []

    async def use(self, name: str, gate: anyio.Event, claim: str = "claim-a") -> None:
        async with self.book._turn(claim):
            self.came.append(name)
            self.holders.append(name)
            if len(self.holders) > 1:
                self.together.append(list(self.holders))
            await gate.wait()
            self.holders.remove(name)


def opened() -> anyio.Event:
    gate = anyio.Event()
    gate.set()
    return gate


async def test_turns_are_one_at_a_time_in_the_order_of_coming() -> None:
    users, gate = Users(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        for name in ("first", "second", "third"):
            tasks.start_soon(users.use, name, gate)
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["first"]
        gate.set()
    assert users.came == ["first", "second", "third"]
    assert users.together == []
    assert users.book._turns == {}


@pytest.mark.parametrize("call", ["join", "found", "repair", "release"])
async def test_every_call_that_writes_seats_takes_a_turn(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    users, gate = Users(), anyio.Event()

    async def write(_book: SeatBook, name: str, *_: object, **__: object) -> None:
        users.came.append(name)
        await gate.wait()

    monkeypatch.setattr(SeatBook, call, write)
    arguments = {"recheck": None} if call in {"join", "repair"} else {}
    write_seats = partial(getattr(users.book, call), **arguments)
    async with anyio.create_task_group() as tasks:
        for claim in ("claim-a", "claim-a", "claim-b"):
            tasks.start_soon(write_seats, claim, None)
        await anyio.wait_all_tasks_blocked()
        assert users.came == ["claim-a", "claim-b"]
        gate.set()
    assert users.came == ["claim-a", "claim-b", "claim-a"]


async def test_other_claims_do_not_wait() -> None:
    users, gate = Users(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(users.use, "one", gate, "claim-a")
        tasks.start_soon(users.use, "other", gate, "claim-b")
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["one", "other"]
        gate.set()


async def test_a_turn_that_hangs_is_waited_for_only_so_long() -> None:
    users, hangs = Users(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(users.use, "hanging", hangs)
        await anyio.wait_all_tasks_blocked()
        began = anyio.current_time()
        await users.use("next", opened())
        assert anyio.current_time() - began == pytest.approx(TURN_SECONDS)
        hangs.set()
    assert users.book._turns == {}


async def test_who_waits_in_a_long_line_is_kept_from_a_race_by_each_turn_before_it() -> None:
    """Each turn is short, all of them together take longer than one may."""
    users = Users()

    async def use(name: str) -> None:
        gate = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(users.use, name, gate)
            while name not in users.came:
                await anyio.wait_all_tasks_blocked()
                await anyio.sleep(TURN_SECONDS / 4)
            await anyio.sleep(TURN_SECONDS / 2)
            gate.set()

    names = [f"user-{number}" for number in range(10)]
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(use, name)
    assert users.came == names
    assert users.together == []


async def test_one_after_the_other_goes_on_beside_a_turn_that_hangs() -> None:
    users, hangs, gate = Users(), anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(users.use, "hanging", hangs)
        for name in ("second", "third"):
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(users.use, name, gate)
        await anyio.sleep(TURN_SECONDS * 1.5)
        assert users.holders == ["hanging", "second"]
        hangs.set()
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["second"], "the end of the old turn is not the end of this one"
        gate.set()
    assert users.came == ["hanging", "second", "third"]
    assert users.book._turns == {}


async def test_who_comes_after_the_end_of_an_old_turn_waits_for_the_one_that_was_passed_on() -> None:
    users, hangs, gate = Users(), anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(users.use, "hanging", hangs)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(users.use, "second", gate)
        await anyio.sleep(TURN_SECONDS * 1.5)
        hangs.set()
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(users.use, "third", gate)
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["second"]
        gate.set()
    assert users.book._turns == {}


async def test_one_that_gives_up_waiting_leaves_the_turns_of_others_alone() -> None:
    """The turn ends and a waiter is cancelled at the same moment; the next one must find the others' turn."""
    users, gate, last = Users(), anyio.Event(), anyio.Event()
    given_up = anyio.CancelScope()

    async def use_twice() -> None:
        await users.use("first", gate)
        await users.use("first again", last)

    async def give_up() -> None:
        with given_up:
            await users.use("waiter", gate)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use_twice)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(give_up)
        await anyio.wait_all_tasks_blocked()
        gate.set()
        given_up.cancel()
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(users.use, "late", last)
        await anyio.wait_all_tasks_blocked()
        assert users.holders == ["first again"]
        last.set()
    assert users.together == []
    assert users.book._turns == {}
