"""The sentence that explains a wait: whether waiting helps, and what rules out the claims and nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placement.explain import REASON_MAX_CHARACTERS
from placement.types import GIB, JoinCheck, Refusals, Role, Toleration, WaitCode
from tests.placement.builders import CPU, TAINT, Scene, amounts, join_checks, node, one_claim, request, seat


def sentence(scene: Scene, **changes: Any) -> str:
    return scene.fleet.explain(request(**changes)).sentence


NO_CAPACITY: dict[str, tuple[Callable[[], Scene], dict[str, Any], str]] = {
    "no node": (Scene, {}, "no enabled node has devices"),
    "no enabled node": (lambda: Scene().node("node", 80, enabled=False), {}, "no enabled node has devices"),
    "no device with memory": (lambda: Scene().node("node", None), {}, "no enabled node has devices"),
    "no node for the role": (
        lambda: Scene().node("node", 80, roles=frozenset({Role.SAMPLER})),
        {},
        "no enabled node with devices accepts the role trainer",
    ),
    "no node accepts a role": (
        lambda: Scene().node("node", 80, roles=frozenset()),
        {},
        "no enabled node with devices accepts the role trainer",
    ),
    "no device that large": (
        lambda: Scene().node("node", 79.5).node("other", 141, roles=frozenset({Role.SAMPLER})),
        {"memory_bytes": 80 * GIB},
        "no device for the role trainer holds 80Gi, the largest has 81408Mi",
    ),
    "no node with enough devices": (
        lambda: Scene().node("node", 80, 80, 141).node("other", 40, 40, 40, 40),
        {"devices": 4},
        "no node for the role trainer has 4 devices of one size that hold 60Gi, the largest has 2 of 80Gi",
    ),
}


@pytest.mark.parametrize("case", NO_CAPACITY)
def test_no_capacity_has_a_reason_and_no_causes(case: str) -> None:
    build, changes, text = NO_CAPACITY[case]
    explanation = build().fleet.explain(request(**changes))
    assert explanation.code is WaitCode.NO_CAPACITY
    assert explanation.sentence == f"NoCapacity: {text}"
    assert explanation.causes == ()


def exclusive_claim() -> Scene:
    return Scene().node("node", 80).shared("claim", seat("first", exclusive=True))


CAUSES: dict[str, tuple[Callable[[], Scene], dict[str, Any], tuple[str, ...]]] = {
    "seats": (one_claim, {"seat_limit": 1}, ("claims that fit are full",)),
    "an exclusive worker": (exclusive_claim, {}, ("exclusive workers hold devices that fit",)),
    "an ending claim": (
        lambda: Scene().node("node", 80).shared("claim", joinable=False),
        {},
        ("claims that fit are ending",),
    ),
    "host memory": (
        lambda: one_claim(allocatable=amounts(20, 64 * CPU, 110)),
        {},
        ("nodes of claims that fit lack host memory",),
    ),
    "CPU": (
        lambda: one_claim(allocatable=amounts(64, CPU, 110)),
        {},
        ("nodes of claims that fit lack CPU",),
    ),
    "CPU if memory just suffices": (
        lambda: one_claim(allocatable=amounts(32, CPU, 2)),
        {},
        ("nodes of claims that fit lack CPU",),
    ),
    "Pod slots": (
        lambda: one_claim(allocatable=amounts(64, 64 * CPU, 1)),
        {},
        ("nodes of claims that fit lack Pod slots",),
    ),
    "readiness": (lambda: one_claim(ready=False), {}, ("nodes with devices that fit are not ready",)),
    "a cordon": (lambda: one_claim(cordoned=True), {}, ("nodes with devices that fit are cordoned",)),
    "a taint": (
        lambda: one_claim(taints=(TAINT,)),
        {},
        ("nodes with devices that fit have taints that the template does not tolerate",),
    ),
    "no claim seen": (lambda: Scene().node("node", 80), {}, ()),
    "claims on smaller devices do not count": (
        lambda: Scene().node("node", 40).shared("claim").node("other", 80),
        {"seat_limit": 1},
        (),
    ),
    "an exclusive worker waits for devices": (
        one_claim,
        {"exclusive": True},
        ("other workers hold devices that fit",),
    ),
}


@pytest.mark.parametrize("case", CAUSES)
def test_waiting_for_capacity_names_the_causes(case: str) -> None:
    build, changes, causes = CAUSES[case]
    explanation = build().fleet.explain(request(**changes))
    assert explanation.code is WaitCode.WAITING_FOR_CAPACITY
    assert explanation.causes == causes
    assert "no free device" in explanation.sentence
    assert all(cause in explanation.sentence for cause in causes)


def test_a_claim_that_refused_the_worker_is_a_cause() -> None:
    explanation = one_claim().fleet.explain(request(), Refusals(claims=frozenset({"claim-uid"})))
    assert explanation.causes == ("claims that fit have just refused this worker",)


def test_the_sentence_names_a_set_limit_if_the_worker_can_share() -> None:
    assert (
        sentence(one_claim(), seat_limit=1) == "WaitingForCapacity: no free device or seat of 60Gi; "
        "shared claims hold at most 1 workers; claims that fit are full"
    )


@pytest.mark.parametrize(
    "changes", [{"exclusive": True}, {"devices": 2}, {"seat_limit": 256, "seat_limit_is_set": False}]
)
def test_the_sentence_omits_a_limit_that_does_not_apply(changes: dict[str, Any]) -> None:
    scene = Scene().node("node", 80, 80).shared("claim")
    assert "shared claims" not in sentence(scene, **{"seat_limit": 1, **changes})


def test_a_request_for_several_devices_names_their_number() -> None:
    scene = Scene().node("node", 80, 80, 80).shared("claim")
    assert (
        sentence(scene, devices=2) == "WaitingForCapacity: no node has 2 free devices of 60Gi; "
        "other workers hold devices that fit"
    )


def test_the_sentence_does_not_change_with_counts() -> None:
    scene = Scene().node("node", 80, 80).shared("a", seat("one"), seat("two"))
    before = sentence(scene, seat_limit=2)
    scene.shared("b", *(seat(name) for name in ("3", "4", "5")), device="gpu-1")
    assert sentence(scene, seat_limit=2) == before


def test_the_order_of_causes_does_not_depend_on_event_order() -> None:
    texts = set()
    for first, second in (("a", "b"), ("b", "a")):
        scene = Scene()
        for name in (first, second):
            scene.node(name, 80, cordoned=name == "a", ready=name != "b")
        texts.add(sentence(scene))
    assert len(texts) == 1


def test_a_node_with_tolerated_taints_is_not_a_cause() -> None:
    everything = Toleration("", exists=True, value="", effect=None)
    scene = one_claim(taints=(TAINT,))
    explanation = scene.fleet.explain(request(tolerations=(everything,)))
    assert (explanation.causes, explanation.sentence) == (
        (),
        "WaitingForCapacity: no free device or seat of 60Gi",
    )


def test_the_sentence_is_limited_to_the_length_of_the_field() -> None:
    scene = Scene()
    changes_by_node: tuple[dict[str, Any], ...] = (
        {"ready": False},
        {"cordoned": True},
        {"taints": (TAINT,)},
        {},
    )
    for number, changes in enumerate(changes_by_node):
        scene.node(f"n{number}", 80, 80, 80, allocatable=amounts(33, 2 * CPU, 9), **changes)
    scene.shared("a", on="n3").shared("b", seat("x", exclusive=True), device="gpu-1", on="n3")
    scene.shared("c", device="gpu-2", on="n3", joinable=False)
    assert len(sentence(scene, seat_limit=2)) <= REASON_MAX_CHARACTERS


def test_each_claim_is_checked_separately() -> None:
    scene = one_claim().shared("another", allocated=False)
    scene.fleet.set_node(node(cordoned=True))
    assert join_checks(scene.fleet, request()) == {
        "another": JoinCheck.UNALLOCATED,
        "claim": JoinCheck.NODE_CORDONED,
    }
