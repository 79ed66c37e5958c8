"""One run: a seed, what is drawn from it, the whole controller through it, and the verdict.

    outcome = simulate(7)
    outcome = simulate(7, without=("crashes",), around=planted_bug)

The run is a function of the seed and the code. `around` is entered for the time of the run: a test plants a
bug there, to see it found.
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
    """What came of a run."""

    seed: int
    digest: str
    """Equal for two runs if and only if all that happened in them was."""
    failures: tuple[str, ...]
    """One sentence for each thing that was wrong; empty for a run that passed."""
    plan: FaultPlan
    scenario: str
    seconds: float
    """Virtual time that passed."""
    events_total: int
    sometimes: Mapping[str, int] = field(default_factory=dict)
    """How often each point of `simulation.checks.coverage` was hit."""
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
    """Run one seed; the faults in `without` are off. Raises nothing for what goes wrong in the run.

    A `scenario` or a `plan` that is given stands for the one that the seed would draw.
    """
    streams = Streams(seed)
    scenario = scenario or draw_scenario(streams)
    plan = plan or draw_plan(streams, without=without)
    with _undisturbed(), ordered_scopes(), tripwire() as trips, around or nullcontext():
        world = run_virtual(_run, streams, scenario, plan)
    trace = world.trace
    failures = (*world.failures, *(f"nothing can replay this: {line}" for line in trips.lines()))
    return RunOutcome(
        seed=seed,
        digest=trace.digest,
        failures=failures,
        plan=plan,
        scenario=str(scenario),
        seconds=world.seconds,
        events_total=trace.events_total,
        sometimes=world.sometimes,
        last_events=tuple(trace.last) if failures else (),
    )


async def _run(streams: Streams, scenario: Scenario, plan: FaultPlan) -> SimulatedRun:
    world = SimulatedRun(streams, scenario, plan)
    try:
        await world.live()
    except Exception as error:  # noqa: BLE001 - whatever broke is a failure of the run, and said
        world.failures += [f"the run broke: {text}" for text in _leaves(error)]
    for state in streams.states():
        world.trace.mix(state)
    return world


def _leaves(error: BaseException) -> Iterator[str]:
    """What an error consists of, one line each, with the place where it was raised."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
        return
    frame = traceback.extract_tb(error.__traceback__)[-1]
    yield f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection in the middle of a run, which has no order, and no logs, which cost time."""
    collects = gc.isenabled()
    gc.disable()
    disabled, structured = logging.root.manager.disable, structlog.get_config()
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**structured)
        logging.disable(disabled)
        gc.collect()
        if collects:
            gc.enable()
