"""Which workers a plan activates: the oldest that fit, without any change of the fleet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.queue.activation import reservation_of
from informers.api import ObjectKey
from placement.types import NO_REFUSALS, PlacementRequest, Refusals
from tests.controller.build import (
    Parts,
    allocation,
    claim,
    container,
    ledger,
    seat,
    template,
    workload,
)
from tests.placement.builders import free_on, sizes_of


def names(keys: Iterable[ObjectKey]) -> list[str]:
    return [key.name for key in keys]


def one_shared_device(limit: int) -> Parts:
    """A device with one worker, for `limit` workers in total."""
    parts = Parts(max_seats_per_claim=limit)
    parts.host()
    parts.shared("claim-a")
    return parts


def test_as_many_of_the_oldest_workers_are_planned_as_seats_are_free() -> None:
    parts = one_shared_device(3)
    for name, age in (("young", 3), ("old", 1), ("middle", 2)):
        parts.waiting(name, age)
    assert names(parts.activation_planner.plan()) == ["old", "middle"]


def test_age_counts_across_equivalence_classes() -> None:
    parts = one_shared_device(4)
    parts.waiting("third", 3, accelerator={"memory": "30Gi"})
    parts.waiting("second", 2)
    parts.waiting("first", 1, accelerator={"memory": "30Gi"})
    parts.waiting("fourth", 4)
    assert names(parts.activation_planner.plan()) == ["first", "second", "third"]


def test_a_worker_that_does_not_fit_blocks_no_younger_one() -> None:
    parts = one_shared_device(2)
    parts.waiting("too-big", 1, accelerator={"memory": "200Gi"})
    parts.waiting("hungry-host", 2, template=template(container(memory="1Ti")))
    parts.waiting("exclusive", 3, exclusive=True)
    parts.waiting("fits", 4)
    assert names(parts.activation_planner.plan()) == ["fits"]


def test_host_memory_is_planned_only_once() -> None:
    parts = one_shared_device(0)
    for age in range(4):
        parts.waiting(f"w{age}", age, template=template(container(memory="30Gi")))
    assert names(parts.activation_planner.plan()) == ["w0", "w1"]


def test_a_claim_that_refused_a_worker_goes_to_the_next_of_its_class() -> None:
    parts = one_shared_device(2)
    parts.local_state.place_holds.add("uid-refused", claim("claim-a", allocated=allocation()))
    # The claim equals the cached one: a changed claim would end the refusal.
    parts.waiting("refused", 1)
    parts.waiting("next", 2)
    assert names(parts.activation_planner.plan()) == ["next"]


def test_a_worker_that_waits_for_its_pod_on_an_allocated_claim_is_not_planned() -> None:
    parts = one_shared_device(3)
    parts.waiting("seated", 1, status={"claimName": "claim-a", "assignmentID": "x"})
    parts.waiting("next", 2)
    assert names(parts.activation_planner.plan()) == ["next"]


def test_a_worker_with_a_pending_claim_of_its_own_is_planned() -> None:
    parts = one_shared_device(2)
    parts.put(ledger("claim-own", seat("own")), claim("claim-own"))
    parts.waiting("own", 1, status={"claimName": "claim-own", "assignmentID": "x"})
    parts.waiting("next", 2)
    assert names(parts.activation_planner.plan()) == ["own"]


@pytest.mark.parametrize(
    "booked", [False, True], ids=["its booking is in flight", "its status is not written yet"]
)
def test_a_worker_that_is_booking_a_seat_leaves_the_next_one_to_its_class(*, booked: bool) -> None:
    parts = one_shared_device(3)
    parts.waiting("busy", 1)
    parts.waiting("next", 2)
    if booked:
        parts.put(ledger("claim-a", seat("holder-claim-a"), seat("busy")))
    else:
        request = parts.requests.of(workload("busy"))
        assert request is not None
        parts.fleet.reserve("claim-a", reservation_of(request))
    assert names(parts.activation_planner.plan()) == ["next"]


def test_a_skipped_worker_leaves_the_seat_to_the_next() -> None:
    parts = one_shared_device(2)
    first = parts.waiting("first", 1)
    parts.waiting("second", 2)
    assert names(parts.activation_planner.plan([first])) == ["second"]


def test_a_plan_leaves_the_fleet_unchanged() -> None:
    parts = one_shared_device(3)
    for age in range(5):
        parts.waiting(f"w{age}", age)
    request = parts.requests.of(workload("another"))
    assert request is not None
    before = (sizes_of(parts.fleet), free_on(parts.fleet, "node"), parts.fleet.select(request))
    assert len(parts.activation_planner.plan()) == 2
    assert (sizes_of(parts.fleet), free_on(parts.fleet, "node"), parts.fleet.select(request)) == before
    assert names(parts.activation_planner.plan()) == ["w0", "w1"]


def test_workers_that_cannot_share_are_not_planned() -> None:
    parts = one_shared_device(3)
    parts.waiting("alone", 1, exclusive=True)
    parts.waiting("multi", 2, accelerator={"mode": "MultiGPU", "memory": "1Gi", "devices": 2})
    parts.waiting("invalid", 3, accelerator={"memory": "junk"})
    parts.waiting("sharing", 4)
    assert names(parts.activation_planner.plan()) == ["sharing"]


WAITER = st.fixed_dictionaries(
    {
        "age": st.integers(0, 3),
        "memory": st.sampled_from(["20Gi", "60Gi", "100Gi"]),
        "host": st.sampled_from(["1Gi", "30Gi"]),
        "exclusive": st.sampled_from([False, False, False, True]),
        "refused": st.sets(st.sampled_from(["uid-claim-0", "uid-claim-1", "uid-claim-2"]), max_size=2),
        "on": st.sampled_from(["", "", "", "seat", "booking", "status"]),
    }
)


@settings(deadline=None)
@given(limit=st.integers(1, 4), taken=st.integers(1, 2), waiters=st.lists(WAITER, max_size=7))
def test_a_plan_equals_letting_each_worker_choose_in_turn(
    limit: int, taken: int, waiters: list[dict[str, Any]]
) -> None:
    refused = {f"uid-w{n}": Refusals(claims=frozenset(w["refused"])) for n, w in enumerate(waiters)}
    parts = Parts(max_seats_per_claim=limit, refusals=lambda uid: refused.get(uid, NO_REFUSALS))
    for number in range(3):
        parts.host(f"node-{number}")
    holders = [seat(f"holder-{number}") for number in range(taken)]
    seated = [seat(f"w{number}") for number, w in enumerate(waiters) if w["on"] == "seat"]
    parts.shared("claim-0", *holders, *seated, on="node-0")
    parts.shared("claim-1", on="node-1")
    parts.shared("claim-2", on="node-2")
    for number, waiter in enumerate(waiters):
        key = parts.waiting(
            f"w{number}",
            waiter["age"],
            accelerator={"memory": waiter["memory"]},
            exclusive=waiter["exclusive"],
            template=template(container(memory=waiter["host"])),
            status={"claimName": "claim-2", "assignmentID": "x"} if waiter["on"] == "status" else None,
        )
        request = request_of(parts, key)
        if waiter["on"] == "booking" and request.shareable:
            parts.fleet.reserve("claim-1", reservation_of(request))
    assert names(parts.activation_planner.plan()) == choosing_in_turn(parts, refused)


def request_of(parts: Parts, key: ObjectKey) -> PlacementRequest:
    waiting = parts.caches.workloads.store.get(key)
    request = parts.requests.of(waiting) if waiting is not None else None
    assert request is not None
    return request


def choosing_in_turn(parts: Parts, refused: dict[str, Refusals]) -> list[str]:
    """Let each waiting worker choose and keep a seat, oldest first."""
    found = []
    for key in parts.scheduling_queue:
        waiting = parts.caches.workloads.store.get(key)
        if waiting is None or waiting.status.claim_name:
            continue
        request = request_of(parts, key)
        offer = parts.fleet.select(request, refused[request.worker_uid])
        if offer is not None:
            parts.fleet.reserve(offer.claim, reservation_of(request))
            found.append(key.name)
    return found
