"""The acts: fill the fleet, overfill it, give a seat back, drain a node and open it again.

Every act ends when the API server shows what it was to show, or fails the demo with one line. On a terminal
each result stays for a moment, so that a person can read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

import anyio

from simulation.demo.cluster_view import ClusterView, State
from simulation.demo.history import History
from simulation.demo.mix import listed, manifest
from simulation.demo.plan import DemoPlan
from simulation.demo.screen import TITLE, Screen
from simulation.demo.stage import DemoFailed, Stage
from simulation.demo.summary import Drain, Ending, Handover, above_limit, broken_promises
from simulation.demo.workplace import Workplace

LOOK_INTERVAL_SECONDS = 0.1
READING_SECONDS = 4.0
ACT_SECONDS = 60.0
"""How long an act may take. kube-scheduler lets a Pod that it refused rest for up to ten seconds."""


@dataclass(frozen=True)
class _Seen:
    """What was waited for, and when it was there: reading it takes time, too."""

    view: ClusterView
    seconds: float


class Story:
    """One performance on an empty cluster with a running controller."""

    def __init__(self, stage: Stage, workplace: Workplace, plan: DemoPlan, screen: Screen) -> None:
        self._stage = stage
        self._workplace = workplace
        self._plan = plan
        self._mix = plan.mix
        self._screen = screen
        self._rng = Random(plan.seed)  # noqa: S311 - a choice to be had again, not a secret
        self._history = History()
        self._acts = 0

    def __repr__(self) -> str:
        return f"<Story {self._mix.total} workers, {self._history!r}>"

    async def perform(self) -> Ending:
        """Play all acts; return what happened. Raises `DemoFailed`."""
        await self._fill()
        await self._overfill()
        handover = await self._give_a_seat_back()
        drain = await self._drain_a_node()
        view = await self._look()
        revisions = list(self._stage.revisions())
        self._require_promises(broken_promises(view, limit=self._plan.limit, revisions=revisions))
        return Ending(view, anyio.current_time(), self._history.records, revisions, handover, drain)

    async def _fill(self) -> None:
        if self._mix.alone:
            self._act(f"{listed(self._mix.alone)}: never share, so each gets GPUs of its own")
            await self._submit(self._mix.alone)
            await self._await_all(self._mix.alone, State.RUNNING)
        limit = self._plan.limit
        many = "one to a GPU" if limit == 1 else f"up to {limit} to a GPU"
        self._act(f"{listed(self._mix.sharing)}: a storm that fills what is left, {many}")
        await self._submit(self._mix.sharing)
        await self._await_all(self._mix.sharing, State.RUNNING)

    async def _overfill(self) -> None:
        self._act(f"{listed(self._mix.late)}: come to a full fleet; each says why it waits")
        await self._submit(self._mix.late)
        view = await self._await_all(self._mix.late, State.WAITING)
        self._require_promises(broken_promises(view, limit=self._plan.limit, revisions=()))

    async def _give_a_seat_back(self) -> Handover:
        giver, waiting = self._rng.choice(self._mix.sharing), set(self._mix.late)
        self._act(f"{giver} is deleted; what it held goes to one who waits")
        asked_seconds = anyio.current_time()
        await self._workplace.delete(giver)

        def taken(view: ClusterView) -> bool:
            return view.worker(giver) is None and bool(waiting & set(view.in_state(State.RUNNING)))

        seen = await self._await(taken, f"nobody who waits takes the place of {giver}")
        taker = next(name for name in seen.view.in_state(State.RUNNING) if name in waiting)
        return Handover(giver, taker, asked_seconds)

    async def _drain_a_node(self) -> Drain:
        before = await self._look()
        node = self._rng.choice(sorted({row.node for row in before.claims}))
        lost = tuple(worker.name for worker in before.workers if worker.node == node)
        self._act(f"{node} is drained; {listed(lost)} must find a place elsewhere, or wait")
        asked_seconds = anyio.current_time()
        await self._workplace.drain(node)

        def settled(view: ClusterView) -> bool:
            left = all(worker.node != node for worker in view.workers if worker.state is State.RUNNING)
            return left and view.at_rest

        after = await self._await(settled, f"what ran on {node} neither moves nor waits")
        moved = tuple(name for name in after.view.in_state(State.RUNNING) if name in lost)
        self._act(f"{node} is opened again; its GPUs go to those who wait")
        reopened_seconds = anyio.current_time()
        await self._workplace.reopen(node)

        def full(view: ClusterView) -> bool:
            return view.at_rest and view.working_devices == self._plan.devices

        again = await self._await(full, f"the GPUs of {node} are not all at work again")
        return Drain(node, lost, moved, asked_seconds, after.seconds, reopened_seconds, again.seconds)

    # How an act goes.

    def _act(self, title: str) -> None:
        self._acts += 1
        self._screen.say(f"{self._acts}. {title}", style=TITLE)

    async def _submit(self, names: Iterable[str]) -> None:
        memory_bytes = self._plan.gpu_memory_bytes
        await self._workplace.submit(manifest(name, gpu_memory_bytes=memory_bytes) for name in names)

    async def _await_all(self, names: Sequence[str], state: State) -> ClusterView:
        def reached(view: ClusterView) -> bool:
            return set(names) <= set(view.in_state(state))

        seen = await self._await(reached, f"{listed(names)} are not all {state.value}")
        return seen.view

    async def _await(self, reached: Callable[[ClusterView], bool], what: str) -> _Seen:
        """Look again and again until it is reached; show what it came to, to a reader for a while."""
        view = await self._look()
        with anyio.move_on_after(ACT_SECONDS):
            while not reached(view):
                await anyio.sleep(LOOK_INTERVAL_SECONDS)
                view = await self._look()
        self._screen.snapshot(view)
        if not reached(view):
            raise DemoFailed(f"{what}: not within {ACT_SECONDS:g} s")
        seen = _Seen(view, anyio.current_time())
        if self._screen.live:
            await self._linger()
        return seen

    async def _linger(self) -> None:
        with anyio.move_on_after(READING_SECONDS):
            while True:
                await anyio.sleep(LOOK_INTERVAL_SECONDS)
                await self._look()

    async def _look(self) -> ClusterView:
        self._stage.require_alive()
        self._require_promises(list(above_limit(self._plan.limit, self._stage.revisions())))
        view = await self._workplace.look()
        self._history.see(view, anyio.current_time())
        self._screen.update(view)
        return view

    @staticmethod
    def _require_promises(broken: Sequence[str]) -> None:
        if broken:
            raise DemoFailed("; ".join(broken))
