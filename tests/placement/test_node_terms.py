"""The rules of node selectors and required node affinity, for nodes that a worker may join."""

from __future__ import annotations

import pytest

from placement.node_class import matches
from placement.types import JoinCheck, NodeRequirement
from tests.placement.builders import Scene, node, request

NODE = node("node-a", labels=(("count", "8"), ("zone", "a")))


def requirement(key: str, operator: str, *values: str) -> NodeRequirement:
    return NodeRequirement(key, operator, values)


def name(operator: str, *values: str) -> NodeRequirement:
    return NodeRequirement("metadata.name", operator, values, is_name=True)


@pytest.mark.parametrize(
    ("item", "holds"),
    [
        (requirement("zone", "In", "a", "b"), True),
        (requirement("zone", "In", "b"), False),
        (requirement("rack", "In", "a"), False),
        (requirement("zone", "NotIn", "a"), False),
        (requirement("zone", "NotIn", "b"), True),
        (requirement("rack", "NotIn", "a"), True),
        (requirement("zone", "Exists"), True),
        (requirement("rack", "Exists"), False),
        (requirement("zone", "DoesNotExist"), False),
        (requirement("rack", "DoesNotExist"), True),
        (requirement("count", "Gt", "7"), True),
        (requirement("count", "Gt", "8"), False),
        (requirement("count", "Lt", "9"), True),
        (requirement("count", "Lt", "8"), False),
        (requirement("zone", "Gt", "1"), False),
        (requirement("rack", "Lt", "1"), False),
        (requirement("count", "Gt", "many"), False),
        (requirement("zone", "Unknown", "a"), False),
        (name("In", "node-a"), True),
        (name("In", "node-b"), False),
        (name("NotIn", "node-b"), True),
    ],
)
def test_one_requirement(item: NodeRequirement, *, holds: bool) -> None:
    assert matches(((item,),), NODE) is holds


def test_all_requirements_of_one_term_must_hold() -> None:
    zone, rack = requirement("zone", "In", "a"), requirement("rack", "Exists")
    assert not matches(((zone, rack),), NODE)
    assert matches(((rack,), (zone,)), NODE)
    assert matches((), NODE)


def test_a_claim_on_a_node_that_does_not_match_is_not_joined() -> None:
    scene = Scene()
    for zone in ("a", "b"):
        scene.node(zone, 80, labels=(("zone", zone),)).shared(f"claim-{zone}", on=zone)
    terms = ((requirement("zone", "In", "b"),),)
    assert scene.choice() == "claim-a"
    assert scene.choice(node_terms=terms) == "claim-b"
    assert scene.fleet.check(request(node_terms=terms), "claim-a") is JoinCheck.NODE_UNMATCHED
    nowhere = request(node_terms=((requirement("zone", "In", "c"),),))
    assert scene.fleet.select(nowhere) is None
    assert "node selector or affinity" in scene.fleet.explain(nowhere).sentence
