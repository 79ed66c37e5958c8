"""Local state of one process: place holds, allocation times, ages, and rejection back-off."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controller.api.workload import Workload
from controller.reconcile.backoff import RejectionBackoff
from controller.reconcile.local_state import AllocationTimes, Milestone
from tests.controller.build import Clock, Parts, allocation, claim, condition, node, workload

NODE = "node"


@pytest.fixture
def parts() -> Parts:
    """An allocated claim on a node, both in the caches."""
    parts = Parts()
    parts.host()
    parts.shared("claim-a")
    return parts


def refuse(parts: Parts, worker: str = "uid-w", name: str = "claim-a") -> None:
    parts.local_state.place_holds.add(worker, claim(name, allocated=allocation()))


def closed_nodes(parts: Parts, worker: str) -> frozenset[str]:
    return parts.local_state.place_holds.refusals(worker).nodes


def held_minutes(parts: Parts, worker: str = "uid-w") -> int:
    """Return for how many minutes from now the node is closed to the worker."""
    for minute in range(100):
        if NODE not in closed_nodes(parts, worker):
            return minute
        parts.clock.advance(minutes=1)
    raise AssertionError("the node is held forever")


def test_a_node_is_closed_to_the_worker_that_it_refused(parts: Parts) -> None:
    refuse(parts)
    assert closed_nodes(parts, "uid-w") == {NODE}
    assert closed_nodes(parts, "uid-of-another") == set()


def test_the_hold_doubles_with_each_refusal_from_one_minute_to_thirty(parts: Parts) -> None:
    held = []
    for _ in range(7):
        refuse(parts)
        held.append(held_minutes(parts))
    assert held == [1, 2, 4, 8, 16, 30, 30]


def test_a_hold_ends_after_exactly_its_time(parts: Parts) -> None:
    refuse(parts)
    parts.clock.advance(seconds=59.999)
    assert closed_nodes(parts, "uid-w") == {NODE}
    parts.clock.advance(seconds=0.001)
    assert closed_nodes(parts, "uid-w") == set()


@pytest.mark.parametrize(
    ("reason", "is_held"),
    [
        ("ReplacingWedgedClaim: claim-a on node: it kept refusing the Pod", True),
        ("WaitingForCapacity: claim-a is gone", False),
    ],
)
def test_a_node_left_by_another_process_is_held_too(parts: Parts, reason: str, is_held: bool) -> None:
    before = workload("w", status={"claimName": "claim-a", "assignmentID": "x"})
    after = workload("w", status={"reason": reason})
    parts.local_state.place_holds.observe_status(before, after)
    parts.local_state.place_holds.observe_status(before, after)
    assert (closed_nodes(parts, after.uid) == {NODE}) is is_held
    parts.clock.advance(seconds=61)
    assert closed_nodes(parts, after.uid) == set(), "two events of one abandonment are one refusal"


def test_a_refusal_counts_once_although_the_claim_lost_its_device_before_the_status_was_written(
    parts: Parts,
) -> None:
    """The second refusal would keep the worker from every seat for two minutes."""
    before = workload("w", status={"claimName": "claim-a", "assignmentID": "x"})
    after = workload("w", status={"reason": "ReplacingWedgedClaim: claim-a on node: its Pod was lost"})
    refuse(parts, after.uid)
    parts.caches.claims.store.apply_write(claim("claim-a"))
    parts.local_state.place_holds.record_asked(after.uid)

    parts.local_state.place_holds.observe_status(before, after)

    assert parts.local_state.place_holds.refusals(after.uid).may_join


def test_each_node_has_its_own_hold(parts: Parts) -> None:
    parts.host("other")
    refuse(parts)
    parts.clock.advance(seconds=45)
    parts.local_state.place_holds.add("uid-w", claim("claim-b", allocated=allocation("other")))
    assert closed_nodes(parts, "uid-w") == {NODE, "other"}
    parts.clock.advance(seconds=30)
    assert closed_nodes(parts, "uid-w") == {"other"}


def test_refusals_by_an_open_node_still_count(parts: Parts) -> None:
    refuse(parts)
    parts.clock.advance(minutes=5)
    assert parts.local_state.place_holds.refusals("uid-w").counts == {NODE: 1}


def may_join(parts: Parts) -> bool:
    return parts.local_state.place_holds.refusals("uid-w").may_join


def test_after_a_refusal_the_workers_own_claim_asks_before_the_next_seat(parts: Parts) -> None:
    assert may_join(parts)
    refuse(parts)
    assert parts.local_state.place_holds.asks_first("uid-w")
    parts.clock.advance(hours=1)
    assert not may_join(parts), "only the answer to its own claim counts, not the time"
    parts.local_state.place_holds.record_asked("uid-w")
    assert may_join(parts)
    assert not parts.local_state.place_holds.asks_first("uid-w")


def test_from_the_second_refusal_on_seats_are_two_to_thirty_minutes_apart(parts: Parts) -> None:
    pauses = []
    for _ in range(7):
        refuse(parts)
        parts.local_state.place_holds.record_asked("uid-w")
        minutes = 0
        while not may_join(parts):
            parts.clock.advance(minutes=1)
            minutes += 1
        pauses.append(minutes)
    assert pauses == [0, 2, 4, 8, 16, 30, 30]


def ended(parts: Parts, name: str, *, terminal: bool) -> None:
    """Let a worker on the node end, or be deleted."""
    running = workload(name, status={"phase": "Running", "nodeName": NODE})
    parts.put(running)
    if terminal:
        parts.put(workload(name, status={"phase": "Succeeded", "nodeName": NODE}))
    parts.caches.workloads.store.apply_delete(running)


@pytest.mark.parametrize("terminal", [True, False], ids=["ended", "deleted"])
def test_the_end_of_a_worker_on_the_node_ends_the_hold_of_all(parts: Parts, terminal: bool) -> None:
    refuse(parts)
    refuse(parts, "uid-v")
    ended(parts, "another", terminal=terminal)
    assert closed_nodes(parts, "uid-w") == closed_nodes(parts, "uid-v") == set()
    refuse(parts)
    assert held_minutes(parts) == 2, "the node is the same, so the earlier refusal counts"


def closed_claims(parts: Parts) -> frozenset[str]:
    return parts.local_state.place_holds.refusals("uid-of-anybody").claims


def test_a_claim_is_closed_to_everybody_for_its_hold(parts: Parts) -> None:
    for minutes in (1, 2, 4):
        parts.local_state.place_holds.close_to_all(claim("claim-a", allocated=allocation()))
        parts.clock.advance(minutes=minutes, seconds=-1)
        assert closed_claims(parts) == {"uid-claim-a"}
        parts.clock.advance(seconds=1)
        assert closed_claims(parts) == set()


NODE_CHANGES: dict[str, dict[str, Any]] = {
    "cordoned": {"spec": {"unschedulable": True}},
    "tainted": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    "resized": {"allocatable": {"memory": "128Gi", "cpu": "16", "pods": "110"}},
    "resized in a resource that the fleet does not count": {
        "allocatable": {"memory": "512Gi", "cpu": "64", "pods": "110", "ephemeral-storage": "2Ti"}
    },
    "given another role": {"labels": {"openrl.io/sampler": "true"}},
    "given a label of others": {"labels": {"disk": "ssd"}},
    "not ready": {"conditions": []},
}


@pytest.mark.parametrize("change", NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_a_relevant_node_change_ends_the_hold(parts: Parts, change: dict[str, Any]) -> None:
    refuse(parts)
    parts.put(node(**change))
    assert closed_nodes(parts, "uid-w") == set()
    refuse(parts)
    assert held_minutes(parts) == 1, "earlier refusals do not count after the change"


def test_an_irrelevant_node_change_keeps_the_hold(parts: Parts) -> None:
    refuse(parts)
    parts.put(node(meta={"annotations": {"team": "rl"}}))
    assert closed_nodes(parts, "uid-w") == {NODE}


def test_deletion_of_the_node_ends_the_hold(parts: Parts) -> None:
    refuse(parts)
    parts.caches.nodes.store.apply_delete(node())
    assert closed_nodes(parts, "uid-w") == set()


CLAIM_CHANGES: dict[str, dict[str, Any]] = {
    "allocated anew": {"allocated": allocation(device_name="gpu-1")},
    "not allocated": {},
    "another claim of that name": {"allocated": allocation(), "meta": {"uid": "uid-later"}},
}


@pytest.mark.parametrize("change", CLAIM_CHANGES.values(), ids=CLAIM_CHANGES)
def test_a_changed_claim_is_open_to_everybody_again(parts: Parts, change: dict[str, Any]) -> None:
    parts.local_state.place_holds.close_to_all(claim("claim-a", allocated=allocation()))
    parts.put(claim("claim-a", **change))
    assert closed_claims(parts) == set()


def waited(parts: Parts, worker: Workload) -> timedelta:
    return parts.local_state.ages.counted_wait(worker)


def test_settling_a_placed_worker_drops_the_state_of_its_wait(parts: Parts) -> None:
    worker = workload("w")
    parts.put(worker)
    parts.clock.advance(minutes=1)
    refuse(parts, worker.uid)
    parts.local_state.ages.exempt(worker.uid)
    assert waited(parts, worker) == timedelta()
    parts.local_state.settle(worker.uid)
    assert closed_nodes(parts, worker.uid) == set()
    assert waited(parts, worker) == timedelta(minutes=1), "the exemption is gone"
    refuse(parts, worker.uid)
    assert held_minutes(parts, worker.uid) == 1, "the back-off starts again"


def test_all_state_of_a_deleted_workload_is_dropped(parts: Parts) -> None:
    worker = workload("w")
    parts.put(worker)
    refuse(parts, worker.uid)
    parts.local_state.ages.exempt(worker.uid)
    parts.local_state.rejection_backoff.add(worker.uid)
    parts.local_state.ages.observe(worker, None)
    parts.caches.workloads.store.apply_delete(worker)
    assert closed_nodes(parts, worker.uid) == set()
    assert parts.local_state.rejection_backoff.count(worker.uid) == 0
    assert repr(parts.local_state.ages) == "<Ages workers=0 waiting=0>"


@pytest.mark.parametrize(
    ("condition_status", "age_seconds"), [("False", 5), ("True", 65)], ids=["waits again", "is placed"]
)
def test_a_wait_that_begins_while_the_process_watches_has_age_zero(
    parts: Parts, condition_status: str, age_seconds: float
) -> None:
    worker = workload("w")
    parts.put(worker)
    parts.clock.advance(minutes=1)
    placed = condition("Placed", condition_status, since="2020-01-01T00:00:00Z")
    later = workload("w", status={"conditions": [placed]})
    parts.put(later)
    parts.clock.advance(seconds=5)
    age = parts.local_state.ages.age(Milestone.WAIT_STARTED, later, None)
    assert age == timedelta(seconds=age_seconds)


def test_the_age_of_an_allocation_counts_from_when_the_cache_shows_it() -> None:
    parts = Parts()
    parts.clock.advance(minutes=1)
    parts.put(claim("claim-a"))
    parts.clock.advance(minutes=1)
    parts.put(claim("claim-a", allocated=allocation()))
    newer = claim("claim-a", allocated=allocation(), meta={"finalizers": ["a/b"]})
    parts.clock.advance(minutes=1)
    parts.put(newer)
    parts.clock.advance(minutes=1)
    assert parts.local_state.allocation_times.age(newer) == timedelta(minutes=2)


def test_a_new_allocation_starts_at_age_zero() -> None:
    parts = Parts()
    parts.put(claim("claim-a", allocated=allocation()))
    parts.clock.advance(minutes=1)
    moved = claim("claim-a", allocated=allocation("other"))
    assert parts.local_state.allocation_times.age(moved) == timedelta(), "the cache has not shown it yet"
    parts.put(moved)
    parts.clock.advance(minutes=1)
    assert parts.local_state.allocation_times.age(moved) == timedelta(minutes=1)


def test_a_lost_and_restored_allocation_starts_at_age_zero() -> None:
    parts = Parts()
    for _ in range(2):
        parts.put(claim("claim-a", allocated=allocation()))
        parts.clock.advance(minutes=1)
        parts.put(claim("claim-a"))
    again = claim("claim-a", allocated=allocation())
    parts.put(again)
    assert parts.local_state.allocation_times.age(again) == timedelta()


def test_the_allocation_of_a_deleted_claim_is_dropped() -> None:
    allocations = AllocationTimes(Clock().monotonic)
    found = claim("claim-a", allocated=allocation())
    allocations.claim_changed(None, found)
    allocations.claim_changed(found, None)
    assert repr(allocations) == "<AllocationTimes seen=0>"


def test_the_rejection_backoff_doubles_from_one_second_to_five_minutes() -> None:
    clock = Clock()
    rejections = RejectionBackoff(clock.monotonic)
    assert rejections.remaining_seconds("uid-w") == 0
    assert [rejections.add("uid-w") for _ in range(10)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert rejections.count("uid-w") == 10
    assert repr(rejections) == "<RejectionBackoff held=1>"


def test_a_rejected_worker_is_held_until_its_backoff_ends() -> None:
    clock = Clock()
    rejections = RejectionBackoff(clock.monotonic)
    rejections.add("uid-w")
    clock.advance(seconds=0.25)
    assert rejections.remaining_seconds("uid-w") == 0.75
    assert rejections.remaining_seconds("uid-of-another") == 0
    clock.advance(seconds=60)
    assert rejections.remaining_seconds("uid-w") == 0
    assert rejections.add("uid-w") == 2, "the next rejection doubles the back-off"
    rejections.forget("uid-w")
    assert (rejections.remaining_seconds("uid-w"), rejections.add("uid-w")) == (0, 1)


def pods_in_an_hour(parts: Parts, *, pause_seconds: float) -> int:
    """Make a Pod whenever the budget allows it, after each pause."""
    made = 0
    for _ in range(int(3600 // pause_seconds)):
        if not parts.local_state.pod_budget.wait_seconds("uid-w"):
            parts.local_state.pod_budget.spend("uid-w")
            made += 1
        parts.clock.advance(seconds=pause_seconds)
    return made


def test_the_pods_of_a_worker_are_bounded_in_any_hour(parts: Parts) -> None:
    made = [pods_in_an_hour(parts, pause_seconds=1) for _ in range(3)]
    assert made == [39, 20, 20], "the fortieth is due when the hour is over"
    parts.clock.advance(hours=1)
    assert pods_in_an_hour(parts, pause_seconds=1) == 39, "the whole budget is back after an idle hour"
    assert not parts.local_state.pod_budget.wait_seconds("uid-of-another")


def test_twenty_pods_may_follow_each_other_at_once(parts: Parts) -> None:
    for _ in range(20):
        assert not parts.local_state.pod_budget.wait_seconds("uid-w")
        parts.local_state.pod_budget.spend("uid-w")
    assert parts.local_state.pod_budget.wait_seconds("uid-w") == 180
