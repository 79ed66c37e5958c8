"""Choosing and reserving are one step: a booking under way counts as the seat that it will be."""

from __future__ import annotations

from placement.types import GIB, Amounts, JoinCheck
from tests.placement.builders import CPU, Scene, amounts, claim, free_on, one_claim, pod, request, seat

BOOKING = seat("joiner")


def memory_left(scene: Scene) -> float:
    room = free_on(scene.fleet, "node")
    assert room is not None
    return room.memory_bytes / GIB


def test_two_workers_never_get_the_same_last_seat() -> None:
    scene = one_claim()
    assert scene.choice(seat_limit=2) == "claim"
    scene.fleet.reserve("claim", BOOKING)
    assert scene.choice(seat_limit=2) is None


def test_two_workers_never_get_the_same_host_memory() -> None:
    scene = Scene().node("node", 80, 80, allocatable=amounts(48, 64 * CPU, 110))
    scene.shared("a").shared("b", seat("idle", host=amounts(0)), device="gpu-1")
    assert scene.choice() == "a"
    scene.fleet.reserve("a", seat("joiner", host=amounts(17, CPU)))
    assert scene.choice() is None
    assert scene.fleet.check(request(), "b") is JoinCheck.HOST_MEMORY


def test_an_exclusive_reservation_closes_the_claim_and_owners_count() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", seat("joiner", exclusive=True))
    assert scene.fleet.check(request(), "claim") is JoinCheck.EXCLUSIVE


def test_a_failed_booking_gives_the_seat_back() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.cancel_reservation("claim", "another-assignment")
    assert scene.choice(seat_limit=2) is None
    scene.fleet.cancel_reservation("claim", BOOKING.assignment_id)
    assert scene.choice(seat_limit=2) == "claim"


def test_a_reservation_ends_when_the_ledger_shows_its_assignment() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.set_seats("claim", (seat("claim-founder"), BOOKING))
    assert scene.fleet.statistics().reservations == 0
    assert scene.choice(seat_limit=3) == "claim"
    scene.fleet.set_seats("claim", (seat("claim-founder"),))
    assert scene.choice(seat_limit=2) == "claim"


def test_a_reservation_ends_when_its_assignment_is_shown_under_a_corrected_uid() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.set_seats("claim", (seat("claim-founder"), seat("joiner", worker_uid="corrected")))
    assert scene.fleet.statistics().reservations == 0


def test_a_reservation_ends_when_the_ledger_shows_its_worker() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.set_seats("claim", (seat("claim-founder"), seat("joiner", assignment_id="adopted")))
    assert scene.fleet.statistics().reservations == 0


def test_a_reservation_survives_a_ledger_that_does_not_show_it_yet() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.set_seats("claim", (seat("claim-founder"), seat("somebody")))
    assert scene.choice(seat_limit=3) is None
    scene.fleet.remove_seats("claim")
    assert scene.fleet.statistics().reservations == 1


def test_a_reservation_that_the_ledger_already_shows_is_none() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", seat("claim-founder"))
    assert scene.fleet.statistics().reservations == 0


def test_a_worker_has_one_reservation_on_a_claim() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.reserve("claim", seat("joiner", assignment_id="second-try"))
    scene.fleet.cancel_reservation("claim", BOOKING.assignment_id)
    assert scene.choice(seat_limit=3) == "claim"
    assert scene.choice(seat_limit=2) is None


def test_a_reservation_does_not_bring_an_empty_ledger_to_life() -> None:
    scene = one_claim()
    scene.fleet.remove_seats("claim")
    scene.fleet.reserve("claim", BOOKING)
    assert scene.fleet.check(request(), "claim") is JoinCheck.NO_SEATS


def test_a_seat_costs_the_host_until_its_pod_is_bound_and_the_pod_costs_it_afterwards() -> None:
    scene = one_claim(allocatable=amounts(100, 64 * CPU, 110))
    assert memory_left(scene) == 84
    scene.fleet.set_pod(pod("claim-founder", claims=("claim",)))
    assert memory_left(scene) == 84
    scene.fleet.set_pod(pod("claim-founder", claims=("claim",), node_name="node", requests=amounts(20)))
    assert memory_left(scene) == 80
    scene.fleet.remove_pod("claim-founder-pod")
    assert memory_left(scene) == 84


def test_only_the_pod_on_that_claim_relieves_a_seat() -> None:
    scene = one_claim(allocatable=amounts(100, 64 * CPU, 110))
    scene.fleet.set_pod(pod("claim-founder", claims=("elsewhere",), node_name="node"))
    assert memory_left(scene) == 68


def test_seats_on_an_unallocated_claim_cost_no_host() -> None:
    scene = one_claim(allocatable=amounts(100, 64 * CPU, 110))
    scene.fleet.set_claim(claim("claim", allocated=False, node="", devices=()))
    assert memory_left(scene) == 100


def test_others_pods_cost_the_host_memory_cpu_and_a_slot() -> None:
    scene = one_claim(allocatable=amounts(100, 64 * CPU, 110))
    scene.fleet.set_pod(pod("daemon", node_name="node", worker_uid="", requests=Amounts(GIB, 500)))
    room = free_on(scene.fleet, "node")
    assert room is not None
    assert (room.memory_bytes, room.cpu_millis, room.pods) == (83 * GIB, 62_500, 108)
