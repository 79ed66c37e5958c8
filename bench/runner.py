"""Sequential execution of scenarios; the contenders take turns within each round.

Every second round reverses the order of the contenders, so that a drift of the machine or of the control
plane favors none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from anyio import to_thread

from bench.client import connect
from bench.contender import Contender
from bench.samples import Sample
from bench.scenarios.base import Scenario, load_average
from bench.scenarios.catalog import DECISION, INFORMER_GROUP, INFORMERS, ON_CLUSTER, TITLES, WARM_UP
from bench.scenarios.decision import Decision
from bench.scenarios.informers import InformerScenario
from bench.testbed import Testbed
from e2e.controlplane import ControlPlane

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class BenchPlan:
    """The scenarios and rounds of one run."""

    decision: Decision | None
    scenarios: tuple[Scenario, ...]
    informers: tuple[InformerScenario, ...] = ()
    rounds: int | None = None
    """Overrides the rounds of every scenario."""

    @classmethod
    def of(cls, names: Sequence[str], *, quick: bool, rounds: int | None) -> BenchPlan:
        """Return a plan of the named scenarios (all if there are none), in the order of the catalog."""
        chosen = set(names or TITLES)
        if INFORMER_GROUP in chosen:
            chosen.update(scenario.name for scenario in INFORMERS)
        informers = [scenario for scenario in INFORMERS if scenario.name in chosen]
        scenarios = [scenario for scenario in ON_CLUSTER if scenario.name in chosen]
        decision = DECISION if DECISION.name in chosen else None
        if not quick:
            selected = [replace(scenario, rounds=rounds or scenario.rounds) for scenario in informers]
            return cls(
                decision=decision, scenarios=tuple(scenarios), informers=tuple(selected), rounds=rounds
            )
        return cls(
            decision=decision.quick() if decision else None,
            scenarios=tuple(scenario.quick() for scenario in scenarios),
            informers=tuple(scenario.quick() for scenario in informers),
            rounds=rounds or 1,
        )

    def rounds_of(self, scenario: Scenario) -> int:
        """Return the number of rounds of a scenario."""
        return self.rounds or scenario.rounds


def measuring_order(contenders: Sequence[Contender], rounds: int) -> Iterator[tuple[int, Contender]]:
    """Yield round and contender in the order of measurement, reversed in every second round."""
    for number in range(1, rounds + 1):
        for contender in contenders if number % 2 else reversed(contenders):
            yield number, contender


async def measure(plan: BenchPlan, profiles: Path | None, progress: Progress) -> list[Sample]:
    """Measure everything. Start a control plane if a scenario needs one."""
    samples: list[Sample] = []
    if plan.decision is not None:
        progress(plan.decision.title)
        samples += await to_thread.run_sync(plan.decision.measure)
    for scenario in plan.informers:
        progress(scenario.title)
        samples += await to_thread.run_sync(scenario.measure)
    if plan.scenarios:
        samples += await _measure_on_cluster(plan, profiles, progress)
    return samples


async def _measure_on_cluster(plan: BenchPlan, profiles: Path | None, progress: Progress) -> list[Sample]:
    samples: list[Sample] = []
    with ControlPlane.start() as plane:
        await to_thread.run_sync(plane.install)
        async with connect(plane.admin_kubeconfig) as client:
            testbed = Testbed(plane, client, plane.folder, profiles)
            for contender in WARM_UP.contenders:
                await WARM_UP.measure(testbed, contender, 0)
            for scenario in plan.scenarios:
                progress(scenario.title)
                for number, contender in measuring_order(scenario.contenders, plan.rounds_of(scenario)):
                    load = load_average()
                    measured = await scenario.measure(testbed, contender, number)
                    samples += [msgspec.structs.replace(sample, load_before=load) for sample in measured]
                    seconds = measured[0].seconds
                    progress(
                        f"  round {number}, {contender}: {seconds:.1f} s (load average before: {load:.1f})"
                    )
    return samples
