"""Reservations: a booking in progress counts as a seat."""

from __future__ import annotations

from placement.types import GIB, Amounts, JoinCheck
from tests.placement.builders import (
    CPU,
    Scene,
    amounts,
    claim,
    free_on,
    one_claim,
    pod,
    request,
    seat,
    sizes_of,
)

BOOKING = seat("joiner")


def free_memory_gib(scene: Scene) -> float:
    free = free_on(scene.fleet, "node")
    assert free is not None
    return free.memory_bytes / GIB


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


def test_an_exclusive_reservation_closes_the_claim() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", seat("joiner", exclusive=True))
    assert scene.fleet.check(request(), "claim") is JoinCheck.EXCLUSIVE


def test_a_failed_booking_frees_the_seat() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.cancel_reservation("claim", "another-assignment")
    assert scene.choice(seat_limit=2) is None
    scene.fleet.cancel_reservation("claim", BOOKING.assignment_id)
    assert scene.choice(seat_limit=2) == "claim"


def test_a_reservation_ends_when_the_ledger_shows_its_assignment() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.set_seats("claim", (seat("claim-creator"), BOOKING))
    assert sizes_of(scene.fleet).reservations == 0
    assert scene.choice(seat_limit=3) == "claim"
    scene.fleet.set_seats("claim", (seat("claim-creator"),))
    assert scene.choice(seat_limit=2) == "claim"


def test_a_reservation_ends_when_its_assignment_is_shown_under_a_corrected_uid() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.set_seats("claim", (seat("claim-creator"), seat("joiner", worker_uid="corrected")))
    assert sizes_of(scene.fleet).reservations == 0


def test_a_reservation_ends_when_the_ledger_shows_its_worker() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.set_seats("claim", (seat("claim-creator"), seat("joiner", assignment_id="adopted")))
    assert sizes_of(scene.fleet).reservations == 0


def test_a_reservation_survives_a_ledger_that_does_not_show_it_yet() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.set_seats("claim", (seat("claim-creator"), seat("another")))
    assert scene.choice(seat_limit=3) is None
    scene.fleet.set_seats("claim", ())
    assert sizes_of(scene.fleet).reservations == 1


def test_a_seat_in_the_ledger_is_not_reserved_again() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", seat("claim-creator"))
    assert sizes_of(scene.fleet).reservations == 0


def test_a_worker_has_one_reservation_on_a_claim() -> None:
    scene = one_claim()
    scene.fleet.reserve("claim", BOOKING)
    scene.fleet.reserve("claim", seat("joiner", assignment_id="second-try"))
    scene.fleet.cancel_reservation("claim", BOOKING.assignment_id)
    assert scene.choice(seat_limit=3) == "claim"
    assert scene.choice(seat_limit=2) is None


def test_a_reservation_does_not_make_an_empty_ledger_joinable() -> None:
    scene = one_claim()
    scene.fleet.set_seats("claim", ())
    scene.fleet.reserve("claim", BOOKING)
    assert scene.fleet.check(request(), "claim") is JoinCheck.NO_SEATS


def test_a_seat_uses_host_resources_until_its_pod_is_bound_and_uses_them_instead() -> None:
    scene = one_claim(allocatable=amounts(100, 64 * CPU, 110))
    assert free_memory_gib(scene) == 84
    scene.fleet.set_pod(pod("claim-creator", claims=("claim",)))
    assert free_memory_gib(scene) == 84
    scene.fleet.set_pod(pod("claim-creator", claims=("claim",), node_name="node", requests=amounts(20)))
    assert free_memory_gib(scene) == 80
    scene.fleet.remove_pod("claim-creator-pod")
    assert free_memory_gib(scene) == 84


def test_only_a_pod_on_the_claim_replaces_the_requests_of_a_seat() -> None:
    scene = one_claim(allocatable=amounts(100, 64 * CPU, 110))
    scene.fleet.set_pod(pod("claim-creator", claims=("elsewhere",), node_name="node"))
    assert free_memory_gib(scene) == 68


def test_seats_on_an_unallocated_claim_use_no_host_resources() -> None:
    scene = one_claim(allocatable=amounts(100, 64 * CPU, 110))
    scene.fleet.set_claim(claim("claim", allocated=False, node="", devices=()))
    assert free_memory_gib(scene) == 100


def test_foreign_pods_use_host_memory_cpu_and_a_pod_slot() -> None:
    scene = one_claim(allocatable=amounts(100, 64 * CPU, 110))
    scene.fleet.set_pod(pod("daemon", node_name="node", worker_uid="", requests=Amounts(GIB, 500)))
    free = free_on(scene.fleet, "node")
    assert free is not None
    assert (free.memory_bytes, free.cpu_millis, free.pods) == (83 * GIB, 62_500, 108)
