"""The steps: fill the fleet, overfill it, free a seat, drain a node and uncordon it.

Each step ends when the API server shows the expected state; otherwise the demo fails with one line. On a
terminal, each result stays on the screen for a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

import anyio

from simulation.demo.cluster_view import ClusterView, State
from simulation.demo.history import History
from simulation.demo.mix import abbreviate_names, manifest
from simulation.demo.plan import DemoPlan
from simulation.demo.screen import TITLE, Screen
from simulation.demo.stage import DemoFailed, Stage
from simulation.demo.summary import Drain, Ending, Replacement, above_limit, violations
from simulation.demo.workplace import Workplace

POLL_INTERVAL_SECONDS = 0.1
PAUSE_SECONDS = 4.0
STEP_SECONDS = 60.0
"""The timeout of a step. kube-scheduler retries an unschedulable Pod after up to ten seconds."""


@dataclass(frozen=True)
class _Seen:
    """The awaited view and its time, taken before the pause for the reader."""

    view: ClusterView
    seconds: float


class Story:
    """One run of the demo, on an empty cluster with a running controller."""

    def __init__(self, stage: Stage, workplace: Workplace, plan: DemoPlan, screen: Screen) -> None:
        self._stage = stage
        self._workplace = workplace
        self._plan = plan
        self._mix = plan.mix
        self._screen = screen
        self._rng = Random(plan.seed)  # noqa: S311 - a reproducible choice, not a secret
        self._history = History()
        self._steps = 0

    def __repr__(self) -> str:
        return f"<Story {self._mix.total} workers, {self._history!r}>"

    async def run(self) -> Ending:
        """Run all steps and return the results. Raises `DemoFailed`."""
        await self._fill()
        await self._overfill()
        replacement = await self._free_a_seat()
        drain = await self._drain_a_node()
        view = await self._poll()
        revisions = list(self._stage.revisions())
        self._require_none(violations(view, limit=self._plan.limit, revisions=revisions))
        return Ending(view, anyio.current_time(), self._history.records, revisions, replacement, drain)

    async def _fill(self) -> None:
        if self._mix.exclusive:
            self._step(
                f"Create {abbreviate_names(self._mix.exclusive)}: exclusive workers never share their GPUs"
            )
            await self._submit(self._mix.exclusive)
            await self._wait_for_all(self._mix.exclusive, State.RUNNING)
        limit = self._plan.limit
        seats = "1 worker" if limit == 1 else f"up to {limit} workers"
        self._step(f"Create {abbreviate_names(self._mix.shared)}: they fill all other GPUs, {seats} per GPU")
        await self._submit(self._mix.shared)
        await self._wait_for_all(self._mix.shared, State.RUNNING)

    async def _overfill(self) -> None:
        self._step(
            f"Create {abbreviate_names(self._mix.late)}: the fleet is full, and the table shows why they wait"
        )
        await self._submit(self._mix.late)
        view = await self._wait_for_all(self._mix.late, State.WAITING)
        self._require_none(violations(view, limit=self._plan.limit, revisions=()))

    async def _free_a_seat(self) -> Replacement:
        leaver, waiting = self._rng.choice(self._mix.shared), set(self._mix.late)
        self._step(f"Delete {leaver}: a waiting worker takes its place")
        requested_seconds = anyio.current_time()
        await self._workplace.delete(leaver)

        def taken(view: ClusterView) -> bool:
            return view.worker(leaver) is None and bool(waiting & set(view.in_state(State.RUNNING)))

        seen = await self._wait_for(taken, f"a waiting worker running in the place of {leaver}")
        successor = next(name for name in seen.view.in_state(State.RUNNING) if name in waiting)
        return Replacement(leaver, successor, requested_seconds)

    async def _drain_a_node(self) -> Drain:
        before = await self._poll()
        node = self._rng.choice(sorted({row.node for row in before.claims}))
        lost = tuple(worker.name for worker in before.workers if worker.node == node)
        self._step(f"Drain {node}: {abbreviate_names(lost)} must run elsewhere or wait")
        requested_seconds = anyio.current_time()
        await self._workplace.drain(node)

        def settled(view: ClusterView) -> bool:
            vacated = all(worker.node != node for worker in view.workers if worker.state is State.RUNNING)
            return vacated and view.is_settled

        after = await self._wait_for(settled, f"all workers of {node} moved or waiting")
        moved = tuple(name for name in after.view.in_state(State.RUNNING) if name in lost)
        self._step(f"Uncordon {node}: waiting workers get its GPUs")
        reopened_seconds = anyio.current_time()
        await self._workplace.uncordon(node)

        def full(view: ClusterView) -> bool:
            return view.is_settled and view.running_devices == self._plan.devices

        again = await self._wait_for(full, f"all GPUs of {node} in use again")
        return Drain(node, lost, moved, requested_seconds, after.seconds, reopened_seconds, again.seconds)

    # Helpers of the steps.

    def _step(self, title: str) -> None:
        self._steps += 1
        self._screen.show(f"{self._steps}. {title}", style=TITLE)

    async def _submit(self, names: Iterable[str]) -> None:
        memory_bytes = self._plan.gpu_memory_bytes
        await self._workplace.submit(manifest(name, gpu_memory_bytes=memory_bytes) for name in names)

    async def _wait_for_all(self, names: Sequence[str], state: State) -> ClusterView:
        def reached(view: ClusterView) -> bool:
            return set(names) <= set(view.in_state(state))

        seen = await self._wait_for(reached, f"{abbreviate_names(names)} {state.value}")
        return seen.view

    async def _wait_for(self, reached: Callable[[ClusterView], bool], expected: str) -> _Seen:
        """Poll until the state is reached and show it. Raises `DemoFailed` on timeout."""
        view = await self._poll()
        with anyio.move_on_after(STEP_SECONDS):
            while not reached(view):
                await anyio.sleep(POLL_INTERVAL_SECONDS)
                view = await self._poll()
        self._screen.snapshot(view)
        if not reached(view):
            raise DemoFailed(f"not within {STEP_SECONDS:g} s: {expected}")
        seen = _Seen(view, anyio.current_time())
        if self._screen.live:
            await self._pause()
        return seen

    async def _pause(self) -> None:
        with anyio.move_on_after(PAUSE_SECONDS):
            while True:
                await anyio.sleep(POLL_INTERVAL_SECONDS)
                await self._poll()

    async def _poll(self) -> ClusterView:
        self._stage.require_alive()
        self._require_none(list(above_limit(self._plan.limit, self._stage.revisions())))
        view = await self._workplace.view()
        self._history.record(view, anyio.current_time())
        self._screen.update(view)
        return view

    @staticmethod
    def _require_none(broken: Sequence[str]) -> None:
        if broken:
            raise DemoFailed("; ".join(broken))
