"""Every interleaving of a few processes on one ledger, with lost answers and crashes.

Each test checks the invariants of the contract after every step, and the end state after every schedule. It
also checks that *some* schedule had the expected race, so that no test passes without one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from ledger.booking import Booked, Contended, Refused, Released, SeatBook
from ledger.seat_rules import Refusal
from ledger.state import ClaimLedger, Seat
from tests.ledger.build import CLAIM, LEDGER, pod, ref, seat, seat_request
from tests.ledger.explorer import Crashed, Process, Run, explore
from tests.ledger.world import FakeLedgerApi, World, run

FAULTS = [0, 1]


def accept(_: ClaimLedger) -> Refusal | None:
    return None


def within(limit: int) -> Callable[[World], None]:
    """Return a check of contract §8.1 and §8.5 and of at most one seat per worker, for every step."""

    def check(world: World) -> None:
        now = world.get()
        if now is None:
            return
        assert len(now.seats) <= limit
        assert len({each.workload for each in now.seats}) == len(now.seats)
        assert len(now.seats) == 1 or not any(each.exclusive for each in now.seats)

    return check


def world_with(*seats: Seat) -> tuple[World, ClaimLedger | None]:
    world = World()
    return world, world.put(*seats) if seats else None


def process(world: World, view: ClaimLedger | None, name: str) -> SeatBook:
    ids = count(1)
    return SeatBook(FakeLedgerApi(world, view), lambda: f"{name}-{next(ids)}")


def assert_bookings_are_in_the_ledger(end: Run) -> None:
    """Check that the ledger has the seat of every answered booking."""
    now = end.world.get()
    for result in end.results.values():
        if isinstance(result, Booked):
            assert now is not None
            assert now.holds(result.seat.ref)


def result_types(end: Run) -> tuple[str, ...]:
    return tuple(type(end.results[index]).__name__ for index in sorted(end.results))


@pytest.mark.parametrize("faults", FAULTS)
def test_two_joiners_of_the_last_seat(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        return world, [
            process(world, view, name).join(CLAIM, seat_request(name, limit=2), recheck=accept)
            for name in ("b", "c")
        ]

    seen: Counter[tuple[str, ...]] = Counter()
    for end in explore(make, faults=faults, every_step=within(2)):
        seen[result_types(end)] += 1
        assert_bookings_are_in_the_ledger(end)
        if faults == 0:
            assert sorted(result_types(end)) == ["Booked", "Refused"]
    assert {("Booked", "Refused"), ("Refused", "Booked")} <= set(seen)
    assert ("Booked", "Booked") not in seen


def test_three_joiners_of_the_last_two_seats() -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        return world, [
            process(world, view, name).join(CLAIM, seat_request(name, limit=3), recheck=accept)
            for name in "bcd"
        ]

    ends = [result_types(end) for end in explore(make, every_step=within(3))]
    assert {tuple(sorted(end)) for end in ends} == {("Booked", "Booked", "Refused")}


def test_the_explorer_finds_the_violation_by_an_unconditional_write() -> None:
    class UnconditionalWrites(World):
        def _at(self, ledger: ClaimLedger) -> dict[str, Any]:
            return self.ledgers[ledger.metadata.name]

    def make() -> tuple[World, list[Process]]:
        world = UnconditionalWrites()
        view = world.put(seat("a"))
        return world, [
            process(world, view, name).join(CLAIM, seat_request(name, limit=2), recheck=accept)
            for name in "bc"
        ]

    with pytest.raises(AssertionError):
        deque(map(assert_bookings_are_in_the_ledger, explore(make, every_step=within(2))), maxlen=0)


@pytest.mark.parametrize("faults", FAULTS)
def test_a_returning_exclusive_creator_and_a_joiner(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a", exclusive=True))
        creator = process(world, view, "a").create(CLAIM, seat_request("a", exclusive=True))
        return world, [creator, process(world, view, "b").join(CLAIM, seat_request("b"), recheck=accept)]

    for end in explore(make, faults=faults, every_step=within(1)):
        assert isinstance(end.results[1], Refused | Crashed)


@pytest.mark.parametrize("faults", FAULTS)
def test_two_processes_booking_the_same_worker(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        return world, [
            process(world, view, name).join(CLAIM, seat_request("w", limit=2), recheck=accept)
            for name in ("p", "q")
        ]

    for end in explore(make, faults=faults, every_step=within(2)):
        booked = [result.seat.ref for result in end.results.values() if isinstance(result, Booked)]
        now = end.world.get()
        assert now is not None
        if booked:
            assert end.world.seated == ["a", "w"]
        # Both may report a booking. The commit compares the assignments later.
        assert faults or sum(now.holds(each) for each in booked) == 1


@pytest.mark.parametrize("faults", FAULTS)
def test_two_processes_creating_a_claim_for_the_same_worker(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, _ = world_with()
        return world, [
            process(world, None, name).create(CLAIM, seat_request("w", exclusive=True, limit=1))
            for name in ("p", "q")
        ]

    for end in explore(make, faults=faults, every_step=within(1)):
        assert not any(isinstance(result, Refused | Contended) for result in end.results.values())
        if any(isinstance(result, Booked) for result in end.results.values()):
            assert end.world.seated == ["w"]


@pytest.mark.parametrize("faults", FAULTS)
def test_a_joiner_and_the_release_of_the_last_seat(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        joiner = process(world, view, "b").join(CLAIM, seat_request("b"), recheck=accept)
        return world, [process(world, view, "a").release(CLAIM, [ref("a")]), joiner]

    seen: Counter[tuple[str, str]] = Counter()
    for end in explore(make, faults=faults, every_step=within(2)):
        leaver, joiner = end.results[0], end.results[1]
        seen[(str(leaver), type(joiner).__name__)] += 1
        if isinstance(joiner, Booked):
            assert "b" in end.world.seated
            assert CLAIM in end.world.claims
            assert leaver != Released(retired=True)
        if leaver == Released(retired=True):
            assert end.world.ledgers == {}
            assert not isinstance(joiner, Booked)
        if isinstance(leaver, Released):
            assert "a" not in end.world.seated
    assert seen[(str(Released(retired=True)), "Refused")]
    assert seen[(str(Released(retired=False)), "Booked")]


@pytest.mark.parametrize("faults", FAULTS)
def test_two_releases_of_the_same_last_seat(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        return world, [process(world, view, name).release(CLAIM, [ref("a")]) for name in ("p", "q")]

    for end in explore(make, faults=faults, every_step=within(1)):
        if any(isinstance(result, Released) for result in end.results.values()):
            assert "a" not in end.world.seated
        if all(isinstance(result, Released) for result in end.results.values()):
            assert end.world.ledgers == {}
            end.world.collect_garbage()
            assert end.world.claims == {}


@pytest.mark.parametrize("faults", FAULTS)
def test_two_workers_of_one_claim_leaving_at_once(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"), seat("b"))
        return world, [process(world, view, name).release(CLAIM, [ref(name)]) for name in ("a", "b")]

    for end in explore(make, faults=faults, every_step=within(2)):
        for index, name in enumerate(("a", "b")):
            assert not isinstance(end.results[index], Released) or name not in end.world.seated
        if faults == 0:
            assert (end.world.ledgers, end.world.claims) == ({}, {})


@pytest.mark.parametrize("faults", FAULTS)
def test_a_repair_and_the_release_of_the_last_other_seat(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        request = seat_request("w", limit=1, recorded_assignment_id="as-w")
        return world, [
            process(world, view, "a").release(CLAIM, [ref("a")]),
            process(world, view, "w").repair(CLAIM, request),
        ]

    for end in explore(make, faults=faults, every_step=within(1)):
        assert_bookings_are_in_the_ledger(end)


@pytest.mark.parametrize("faults", FAULTS)
def test_a_live_pod_without_its_seat_keeps_its_claim_and_regains_its_seat(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        world.pods.append(pod("w"))
        request = seat_request("w", limit=1, recorded_assignment_id="as-w")
        return world, [
            process(world, view, "a").release(CLAIM, [ref("a")]),
            process(world, view, "w").repair(CLAIM, request),
        ]

    seen: Counter[str] = Counter()
    for end in explore(make, faults=faults, every_step=within(1)):
        seen[type(end.results[1]).__name__] += 1
        assert CLAIM in end.world.claims
        assert LEDGER in end.world.ledgers
        assert_bookings_are_in_the_ledger(end)
    assert seen["Booked"]


@pytest.mark.parametrize("faults", FAULTS)
def test_the_next_creator_of_the_name_keeps_its_claim(faults: int) -> None:
    async def create_again(world: World) -> object:
        outcome = await process(world, None, "n").create(CLAIM, seat_request("n", limit=1))
        if isinstance(outcome, Booked):
            world.collect_garbage()
            world.claims[CLAIM] = ("uid-of-the-next-claim", outcome.ledger.metadata.uid)
        return outcome

    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        return world, [process(world, view, "a").release(CLAIM, [ref("a")]), create_again(world)]

    seen = 0
    for end in explore(make, faults=faults, every_step=within(1)):
        if isinstance(end.results[1], Booked):
            seen += 1
            assert end.world.seated == ["n"]
            assert end.world.claims[CLAIM][0] == "uid-of-the-next-claim"
    assert seen


@pytest.mark.parametrize("faults", [1, 2])
def test_a_later_release_finishes_any_interrupted_one(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, view = world_with(seat("a"))
        return world, [process(world, view, "a").release(CLAIM, [ref("a")])]

    crashed_at = set()
    for end in explore(make, faults=faults, every_step=within(1)):
        if isinstance(end.results[0], Crashed):
            crashed_at.add(end.results[0].point)
        again = process(end.world, end.world.get(), "a").release(CLAIM, [ref("a")])
        assert run(again) == Released(retired=True)
        assert LEDGER not in end.world.ledgers
        end.world.collect_garbage()
        assert end.world.claims == {}
    assert crashed_at == {"write_seats", "read_claim_uid", "delete", "delete_claim"} | (
        {"read"} if faults > 1 else set()
    )


@pytest.mark.parametrize("faults", [1, 2])
def test_a_later_creation_finishes_any_interrupted_one(faults: int) -> None:
    def make() -> tuple[World, list[Process]]:
        world, _ = world_with()
        return world, [
            process(world, None, "before").create(CLAIM, seat_request("w", exclusive=True, limit=1))
        ]

    for end in explore(make, faults=faults, every_step=within(1)):
        again = process(end.world, None, "after").create(CLAIM, seat_request("w", exclusive=True, limit=1))
        assert isinstance(run(again), Booked)
        now = end.world.get()
        assert now is not None
        assert [each.ref for each in now.seats] == [ref("w", assignment="after-1")]
