from __future__ import annotations

import pytest

from bench.contender import Contender, ContenderInfo
from bench.runner import BenchPlan, measuring_order
from bench.scenarios.catalog import INFORMERS, ON_CLUSTER, TITLES
from bench.scenarios.decision import Decision
from bench.scenarios.placement import Placement

ONE, TWO = Contender(ContenderInfo.CONTROLLER, 4), Contender(ContenderInfo.BARE_WRITER, 4)


def test_contenders_alternate_and_reverse_their_order_every_round() -> None:
    assert list(measuring_order([ONE, TWO], 3)) == [
        (1, ONE),
        (1, TWO),
        (2, TWO),
        (2, ONE),
        (3, ONE),
        (3, TWO),
    ]


def test_a_plan_without_names_has_every_scenario_in_catalog_order() -> None:
    plan = BenchPlan.of([], quick=False, rounds=None)

    assert plan.decision is not None
    informers = [scenario.name for scenario in plan.informers]
    assert [plan.decision.name, *informers, *(s.name for s in plan.scenarios)] == list(TITLES)


def test_a_plan_has_only_the_named_scenarios() -> None:
    plan = BenchPlan.of(["late", "shared-40"], quick=False, rounds=None)

    assert plan.decision is None
    assert plan.informers == ()
    assert [scenario.name for scenario in plan.scenarios] == ["shared-40", "late"]
    assert [plan.rounds_of(scenario) for scenario in plan.scenarios] == [3, 1]


def test_one_name_selects_all_informer_scenarios() -> None:
    plan = BenchPlan.of(["informers"], quick=False, rounds=None)

    assert plan.decision is None
    assert plan.scenarios == ()
    assert plan.informers == INFORMERS


def test_given_rounds_override_those_of_each_scenario() -> None:
    plan = BenchPlan.of(["shared-40"], quick=False, rounds=7)

    assert plan.rounds_of(plan.scenarios[0]) == 7


def test_a_quick_plan_is_one_round_of_small_scenarios() -> None:
    plan = BenchPlan.of([], quick=True, rounds=None)

    assert {plan.rounds_of(scenario) for scenario in plan.scenarios} == {1}
    for small, full in zip(plan.scenarios, ON_CLUSTER, strict=True):
        assert small.name == full.name
        assert small != full


@pytest.mark.parametrize(
    "scenario", [*ON_CLUSTER, *(s.quick() for s in ON_CLUSTER)], ids=lambda s: str(s.name)
)
def test_every_worker_of_a_placement_has_exactly_one_seat(scenario: object) -> None:
    if isinstance(scenario, Placement):
        assert scenario.nodes * 4 * scenario.seats_per_gpu == scenario.workers


def test_every_decision_is_measured_on_every_fleet_size() -> None:
    decision = Decision(name="decision", title="small", claims=(8, 40), batches=2)

    small, large = decision.measure()

    assert (small.workers, large.workers) == (8, 40)
    assert {label: len(times) for label, times in large.latencies.items()} == {
        Decision.chosen: 2,
        Decision.full: 2,
        Decision.explained: 2,
    }
