"""Each condition of a seat, and the order in which seats are preferred (contract §3, "Select a seat")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from placement.types import (
    GIB,
    AllocatedDevice,
    Device,
    DeviceID,
    JoinCheck,
    Refusals,
    Role,
    SeatOffer,
    Taint,
    TaintEffect,
)
from tests.placement.builders import (
    CPU,
    DRIVER,
    TAINT,
    TOLERATION,
    Scene,
    amounts,
    claim,
    gpus,
    node,
    one_claim,
    pod,
    request,
    seat,
    slice_of,
)

ROW = AllocatedDevice(DeviceID(DRIVER, "node", "gpu-0"))


def test_the_offer_identifies_a_claim_that_meets_every_condition() -> None:
    assert one_claim().fleet.select(request()) == SeatOffer("claim", "claim-uid", "node")


def full_scene() -> Scene:
    return Scene().node("node", 80).shared("claim", seat("one"), seat("two"))


def tainted_device(effect: TaintEffect) -> Scene:
    device = Device("gpu-0", 80 * GIB, (Taint("health", "bad", effect),))
    scene = one_claim()
    scene.fleet.set_slice(slice_of("node", (device,)))
    return scene


FAILURES: dict[str, tuple[Callable[[], Scene], dict[str, Any], JoinCheck]] = {
    "an exclusive worker": (one_claim, {"exclusive": True}, JoinCheck.NOT_SHAREABLE),
    "a worker on several devices": (one_claim, {"devices": 2}, JoinCheck.NOT_SHAREABLE),
    "an unallocated claim": (
        lambda: Scene().node("node", 80).shared("claim", allocated=False, on="", devices=()),
        {},
        JoinCheck.UNALLOCATED,
    ),
    "a terminating or orphaned claim": (
        lambda: Scene().node("node", 80).shared("claim", joinable=False),
        {},
        JoinCheck.ENDING,
    ),
    "an administrative allocation": (
        lambda: Scene().node("node", 80).shared("claim", devices=(replace(ROW, admin_access=True),)),
        {},
        JoinCheck.ADMIN_ACCESS,
    ),
    "a claim on several devices": (
        lambda: (
            Scene()
            .node("node", 80, 80)
            .shared("claim", devices=(ROW, AllocatedDevice(DeviceID(DRIVER, "node", "gpu-1"))))
        ),
        {},
        JoinCheck.NOT_ONE_DEVICE,
    ),
    "an allocation that names no single node": (
        lambda: Scene().node("node", 80).shared("claim", on=""),
        {},
        JoinCheck.NODE_UNKNOWN,
    ),
    "a node that is not enabled": (lambda: one_claim(enabled=False), {}, JoinCheck.NODE_UNKNOWN),
    "a node that does not exist": (lambda: Scene().shared("claim"), {}, JoinCheck.NODE_UNKNOWN),
    "a node without a complete pool": (
        lambda: _with_slice(one_claim(), slice_count=2),
        {},
        JoinCheck.NODE_UNKNOWN,
    ),
    "a device that is not published": (
        lambda: Scene().node("node", 80).shared("claim", device="gpu-7"),
        {},
        JoinCheck.DEVICE_UNKNOWN,
    ),
    "another driver's device": (
        lambda: (
            Scene()
            .node("node", 80)
            .shared("claim", devices=(AllocatedDevice(DeviceID("nic.example.com", "node", "gpu-0")),))
        ),
        {},
        JoinCheck.DEVICE_UNKNOWN,
    ),
    "a device without memory": (
        lambda: Scene().node("node", None).shared("claim"),
        {},
        JoinCheck.DEVICE_UNKNOWN,
    ),
    "a claim without a seat": (lambda: _without_seats(one_claim()), {}, JoinCheck.NO_SEATS),
    "a claim with an exclusive seat": (
        lambda: Scene().node("node", 80).shared("claim", seat("first", exclusive=True)),
        {},
        JoinCheck.EXCLUSIVE,
    ),
    "a device taint without a toleration": (
        lambda: tainted_device(TaintEffect.NO_SCHEDULE),
        {},
        JoinCheck.DEVICE_TAINTED,
    ),
    "a device taint that evicts": (
        lambda: tainted_device(TaintEffect.NO_EXECUTE),
        {},
        JoinCheck.DEVICE_TAINTED,
    ),
    "a node for the other role": (
        lambda: one_claim(roles=frozenset({Role.SAMPLER})),
        {},
        JoinCheck.ROLE_REFUSED,
    ),
    "a node that is not ready": (lambda: one_claim(ready=False), {}, JoinCheck.NODE_NOT_READY),
    "a cordoned node": (lambda: one_claim(cordoned=True), {}, JoinCheck.NODE_CORDONED),
    "a node taint without a toleration": (lambda: one_claim(taints=(TAINT,)), {}, JoinCheck.NODE_TAINTED),
    "a device that is too small": (one_claim, {"memory_bytes": 80 * GIB + 1}, JoinCheck.DEVICE_TOO_SMALL),
    "a claim at the limit": (full_scene, {"seat_limit": 2}, JoinCheck.SEAT_LIMIT),
    "a claim above a lowered limit": (full_scene, {"seat_limit": 1}, JoinCheck.SEAT_LIMIT),
    "too little host memory": (
        lambda: one_claim(allocatable=amounts(31.9, 8 * CPU, 9)),
        {},
        JoinCheck.HOST_MEMORY,
    ),
    "too little CPU": (lambda: one_claim(allocatable=amounts(64, 2 * CPU - 1, 9)), {}, JoinCheck.HOST_CPU),
    "no Pod slot": (lambda: one_claim(allocatable=amounts(64, 8 * CPU, 1)), {}, JoinCheck.HOST_PODS),
    "the worker's own claim": (one_claim, {"worker": "claim-creator"}, JoinCheck.ALREADY_SEATED),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failed_condition_rules_out_the_claim(case: str) -> None:
    build, changes, check = FAILURES[case]
    fleet, wanted = build().fleet, request(**changes)
    assert fleet.select(wanted) is None
    assert fleet.check(wanted, "claim") is check


def closed(*claims: str) -> Refusals:
    return Refusals(claims=frozenset(claims))


def test_a_claim_that_just_refused_the_worker_is_excluded_by_uid() -> None:
    fleet = one_claim().fleet
    assert fleet.select(request(), closed("claim-uid")) is None
    assert fleet.check(request(), "claim", closed("claim-uid")) is JoinCheck.REFUSED
    assert fleet.select(request(), closed("uid-of-an-earlier-claim")) is not None


def three_shared_nodes() -> Scene:
    """Return two claims on `a`, one on `b` and one on `c`, in this order of preference."""
    scene = Scene()
    for name in "abc":
        scene.node(name, 80, 80).shared(f"{name}-0", on=name)
    return scene.shared("a-1", on="a", device="gpu-1")


def test_a_node_that_just_refused_the_worker_closes_all_its_claims() -> None:
    fleet = three_shared_nodes().fleet
    refusals = Refusals(nodes=frozenset({"a"}), counts={"a": 1})
    assert fleet.select(request(), refusals) == SeatOffer("b-0", "b-0-uid", "b")
    assert fleet.check(request(), "a-1", refusals) is JoinCheck.REFUSED


@pytest.mark.parametrize(
    ("counts", "chosen"),
    [
        ({}, "a-0"),
        ({"a": 1}, "b-0"),
        ({"a": 1, "b": 1}, "c-0"),
        ({"a": 1, "b": 2, "c": 2}, "a-0"),
        ({"a": 3, "b": 2, "c": 2}, "b-0"),
        ({"a": 1, "b": 1, "c": 1}, "a-0"),
    ],
)
def test_open_claims_on_nodes_that_refused_the_worker_least_often_come_first(
    counts: dict[str, int], chosen: str
) -> None:
    offer = three_shared_nodes().fleet.select(request(), Refusals(counts=counts))
    assert offer is not None
    assert offer.claim == chosen


def test_a_worker_that_may_not_join_now_gets_no_seat_and_a_cause() -> None:
    fleet = one_claim().fleet
    refusals = Refusals(counts={"node": 2}, may_join=False)
    assert fleet.select(request(), refusals) is None
    assert fleet.explain(request(), refusals).causes == ("claims that fit have just refused this worker",)


ACCEPTANCES: dict[str, tuple[Callable[[], Scene], dict[str, Any]]] = {
    "a seat below the limit": (full_scene, {"seat_limit": 3}),
    "exactly the memory": (one_claim, {"memory_bytes": 80 * GIB}),
    "exactly the host resources": (lambda: one_claim(allocatable=amounts(32, 2 * CPU, 2)), {}),
    "a node for the role": (lambda: one_claim(roles=frozenset({Role.TRAINER})), {}),
    "a tolerated node taint": (lambda: one_claim(taints=(TAINT,)), {"tolerations": (TOLERATION,)}),
    "a node taint that is only a preference": (
        lambda: one_claim(taints=(replace(TAINT, effect=TaintEffect.PREFER_NO_SCHEDULE),)),
        {},
    ),
    "a device taint that is only information": (lambda: tainted_device(TaintEffect.NONE), {}),
    "a node that reports no memory": (lambda: one_claim(allocatable=amounts(None, 64 * CPU, 110)), {}),
    "no CPU if none is requested": (
        lambda: one_claim(allocatable=amounts(64, 0, 110)),
        {"host": amounts(16, 0)},
    ),
}


@pytest.mark.parametrize("case", ACCEPTANCES)
def test_the_claim_can_be_joined(case: str) -> None:
    build, changes = ACCEPTANCES[case]
    assert build().choice(**changes) == "claim"


def test_device_taints_are_tolerated_by_the_claim_and_not_by_the_template() -> None:
    toleration = replace(TOLERATION, key="health", value="bad")
    scene = tainted_device(TaintEffect.NO_SCHEDULE)
    assert scene.choice(tolerations=(toleration,)) is None
    scene.shared("claim", devices=(replace(ROW, tolerations=(toleration,)),))
    assert scene.choice() == "claim"


def test_the_smallest_device_that_fits_comes_first() -> None:
    scene = Scene().node("node", 141, 80, 40)
    scene.shared("a-large", device="gpu-0")
    scene.shared("b-middle", seat("one"), seat("two"), device="gpu-1")
    scene.shared("c-small", device="gpu-2")
    assert scene.choice() == "b-middle"
    assert scene.choice(memory_bytes=20 * GIB) == "c-small"
    assert scene.choice(memory_bytes=100 * GIB) == "a-large"


def test_the_order_is_fewest_owners_then_fewest_seats_then_name() -> None:
    scene = Scene().node("node", 80, 80, 80, 80)
    scene.shared("a", seat("one", owner_key="x"), seat("two", owner_key="y"), device="gpu-0")
    assert scene.choice() == "a"
    scene.shared("d", *(seat(name, owner_key="x") for name in ("3", "4", "5")), device="gpu-1")
    assert scene.choice() == "d"
    scene.shared("c", *(seat(name, owner_key="x") for name in ("6", "7")), device="gpu-2")
    assert scene.choice() == "c"
    scene.shared("b", *(seat(name, owner_key="z") for name in ("8", "9")), device="gpu-3")
    assert scene.choice() == "b"


def test_the_next_best_claim_on_any_node_follows_a_closed_one() -> None:
    scene = Scene()
    for name in ("node", "other"):
        scene.node(name, 80, 80)
    scene.shared("a", device="gpu-0").shared("c", device="gpu-1")
    scene.shared("b", device="gpu-0", on="other").shared("d", device="gpu-1", on="other")
    assert scene.fleet.select(request(), closed("a-uid")) == SeatOffer("b", "b-uid", "other")
    assert scene.fleet.select(request(), closed("a-uid", "b-uid")) == SeatOffer("c", "c-uid", "node")


def test_claims_on_nodes_of_different_classes_have_one_order() -> None:
    scene = Scene().node("node", 80, roles=frozenset({Role.TRAINER})).node("other", 80)
    scene.shared("b").shared("a", on="other")
    assert scene.choice() == "a"
    assert scene.choice(role=Role.SAMPLER) == "a"
    scene.fleet.set_node(node("other", cordoned=True))
    assert scene.choice() == "b"
    assert scene.choice(role=Role.SAMPLER) is None


def test_a_pod_without_a_seat_counts_as_a_seat() -> None:
    scene = one_claim()
    scene.fleet.set_pod(pod("stranger", node_name="node", claims=("claim",)))
    assert scene.choice(seat_limit=2) is None
    assert scene.choice(seat_limit=3) == "claim"
    assert scene.choice(seat_limit=3, worker="stranger") is None
    scene.fleet.set_pod(pod("stranger", node_name="node", claims=("claim",), exclusive=True))
    assert scene.choice() is None
    scene.fleet.remove_pod("stranger-pod")
    assert scene.choice(seat_limit=2) == "claim"


def test_a_pod_with_a_seat_counts_once() -> None:
    scene = one_claim()
    scene.fleet.set_pod(pod("claim-creator", node_name="node", claims=("claim",)))
    assert scene.choice(seat_limit=2) == "claim"


def test_a_claim_that_moves_is_checked_on_its_new_node() -> None:
    scene = one_claim().node("small", 40)
    scene.fleet.set_claim(claim("claim", "gpu-0", "small"))
    assert scene.fleet.check(request(), "claim") is JoinCheck.DEVICE_TOO_SMALL
    scene.fleet.set_claim(claim("claim", "gpu-0", "node"))
    assert scene.choice() == "claim"


def test_a_device_is_looked_up_in_every_pool_of_the_node() -> None:
    scene = Scene().node("node", 80)
    scene.fleet.set_slice(slice_of("node", gpus(141), name="second", pool="second"))
    row = AllocatedDevice(DeviceID(DRIVER, "second", "gpu-0"))
    scene.shared("claim", devices=(row,))
    assert scene.choice(memory_bytes=100 * GIB) == "claim"


def _with_slice(scene: Scene, **changes: Any) -> Scene:
    scene.fleet.set_slice(slice_of("node", gpus(80), **changes))
    return scene


def _without_seats(scene: Scene) -> Scene:
    scene.fleet.set_seats("claim", ())
    return scene
