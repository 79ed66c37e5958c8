"""The simulation of one seed: draw a scenario and faults, run the whole controller, return the outcome.

    outcome = simulate(7)
    outcome = simulate(7, without=("crashes",), around=planted_bug)

The outcome is a function of the seed and the code. `around` is a context manager that the run is executed
in: tests plant a bug there and check that the simulation finds it.
"""

from __future__ import annotations

import gc
import logging
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from simulation.chaos.scenario import Scenario, draw_scenario
from simulation.engine.fault_plan import FaultPlan, draw_plan
from simulation.engine.ordered_scopes import ordered_scopes
from simulation.engine.random_streams import Streams
from simulation.engine.trace import TraceEvent
from simulation.engine.tripwire import tripwire
from simulation.engine.virtual_loop import run_virtual
from simulation.run.simulated_run import SimulatedRun


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run."""

    seed: int
    digest: str
    """Equal for two runs if and only if the same events happened in both."""
    failures: tuple[str, ...]
    """One sentence per violation; empty for a run that passed."""
    plan: FaultPlan
    scenario: str
    seconds: float
    """The virtual duration of the run."""
    events_total: int
    coverage: Mapping[str, int] = field(default_factory=dict)
    """The hits of each point of `simulation.checks.coverage`."""
    last_events: tuple[TraceEvent, ...] = ()
    """The end of the trace, for a run that failed."""

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.failures


def simulate(
    seed: int,
    *,
    without: Collection[str] = (),
    around: AbstractContextManager[object] | None = None,
    scenario: Scenario | None = None,
    plan: FaultPlan | None = None,
) -> RunOutcome:
    """Run one seed with the faults in `without` off. A failing run raises nothing.

    A given `scenario` or `plan` replaces the one that the seed would draw.
    """
    streams = Streams(seed)
    scenario = scenario or draw_scenario(streams)
    plan = plan or draw_plan(streams, without=without)
    with _without_gc_and_logs(), ordered_scopes(), tripwire() as trips, around or nullcontext():
        simulated_run = run_virtual(_run, streams, scenario, plan)
    trace = simulated_run.trace
    failures = (*simulated_run.failures, *(f"not replayable: {line}" for line in trips.lines()))
    return RunOutcome(
        seed=seed,
        digest=trace.digest,
        failures=failures,
        plan=plan,
        scenario=str(scenario),
        seconds=simulated_run.seconds,
        events_total=trace.events_total,
        coverage=simulated_run.coverage,
        last_events=tuple(trace.last_events) if failures else (),
    )


async def _run(streams: Streams, scenario: Scenario, plan: FaultPlan) -> SimulatedRun:
    simulated_run = SimulatedRun(streams, scenario, plan)
    try:
        await simulated_run.run()
    except Exception as error:  # noqa: BLE001 - reported as a failure of the run
        simulated_run.failures += [f"the run raised {text}" for text in _leaves(error)]
    for state in streams.states():
        simulated_run.trace.update_digest(state)
    return simulated_run


def _leaves(error: BaseException) -> Iterator[str]:
    """Yield one line per leaf of an exception group, with the location of the raise."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
        return
    frame = traceback.extract_tb(error.__traceback__)[-1]
    yield f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


@contextmanager
def _without_gc_and_logs() -> Iterator[None]:
    """Disable garbage collection, which runs at arbitrary times, and logs, which cost time."""
    gc_enabled = gc.isenabled()
    gc.disable()
    log_level, structlog_config = logging.root.manager.disable, structlog.get_config()
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**structlog_config)
        logging.disable(log_level)
        gc.collect()
        if gc_enabled:
            gc.enable()
