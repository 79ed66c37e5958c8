"""A seat changes hands: a seated Workload is deleted, and one that waits takes its seat.

Every waiter has a claim of its own that nothing satisfies, and a Pod that kube-scheduler refused. Each
hand-off begins with everything settled, and ends when the successor runs and the controller is quiet; a
new waiter is added before the next, outside of what is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.contender import Contender
from bench.samples import Sample
from bench.scenarios.base import GPUS_PER_NODE, Scenario, gpu_fleet
from bench.testbed import ContenderRun, Testbed
from bench.timeline import HandOff, find_hand_off

SEATS_PER_GPU = 2
STEP_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class HandOffs(Scenario):
    """A full fleet of shared GPUs with a line of waiters."""

    waiters: int
    hand_offs: int
    nodes: int = 2

    freed_to_booked: ClassVar[str] = "seat freed to next seat booked"
    freed_to_running: ClassVar[str] = "seat freed to next running"
    deleted_to_running: ClassVar[str] = "deletion to next running"

    async def measure(self, stage: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Fill the fleet and the line, then hand over seat by seat."""
        flags = {**self.flags, "--max-seats-per-claim": str(SEATS_PER_GPU)}
        async with stage.scene(self.name, contender, gpu_fleet(self.nodes), flags) as scene:
            await self._fill(scene)
            await scene.meter.settle()
            latencies: dict[str, list[float]] = {
                self.freed_to_booked: [],
                self.freed_to_running: [],
                self.deleted_to_running: [],
            }
            for number in range(self.hand_offs):
                sent, hand_off = await self._hand_off(scene)
                runs = scene.observer.timeline.running_since[hand_off.successor]
                latencies[self.freed_to_booked].append(hand_off.booked_seconds - hand_off.freed_seconds)
                latencies[self.freed_to_running].append(runs - hand_off.freed_seconds)
                latencies[self.deleted_to_running].append(runs - sent)
                await self._line_up(scene, [f"next-{number:04}"])
            return [
                self.sample(
                    scene,
                    round_number,
                    operations=self.hand_offs,
                    seconds=sum(latencies[self.deleted_to_running]),
                    latencies=latencies,
                    most_seats=scene.observer.timeline.most_seats,
                )
            ]

    async def _fill(self, scene: ContenderRun) -> None:
        seats = self.nodes * GPUS_PER_NODE * SEATS_PER_GPU
        names = [f"seated-{number:04}" for number in range(seats)]
        await scene.place(names, shared=True, timeout_seconds=STEP_TIMEOUT_SECONDS * 2)
        await self._line_up(scene, [f"waiter-{number:04}" for number in range(self.waiters)])

    async def _line_up(self, scene: ContenderRun, names: Sequence[str]) -> None:
        """Add waiters, and return once each has been refused by kube-scheduler and all is quiet."""
        await scene.stage.submit(names, shared=True)
        refused = scene.observer.timeline.refused
        await scene.observer.until(
            lambda: refused.issuperset(names),
            f"{len(names)} more wait with a claim of their own",
            timeout_seconds=STEP_TIMEOUT_SECONDS + len(names),
        )
        await scene.meter.quiet()

    async def _hand_off(self, scene: ContenderRun) -> tuple[float, HandOff]:
        """One hand-off, counted; the deletion's time and what was seen."""
        timeline = scene.observer.timeline
        # Never the last seat of a claim: its device would free, and kube-scheduler hand it out.
        ledger = timeline.ledgers_with(SEATS_PER_GPU)[0]
        predecessor = min(timeline.seats[ledger], key=lambda name: (timeline.running_since[name], name))
        changes_before = len(timeline.changes)
        scene.meter.begin()
        sent = await scene.stage.delete([predecessor])

        def completed() -> HandOff | None:
            hand_off = find_hand_off(timeline.changes[changes_before:], ledger, predecessor)
            done = hand_off is not None and hand_off.successor in timeline.running
            return hand_off if done and predecessor not in timeline.present else None

        await scene.observer.until(
            lambda: completed() is not None,
            f"the seat of {predecessor} is taken by a waiter that runs",
            timeout_seconds=STEP_TIMEOUT_SECONDS,
        )
        hand_off = completed()
        assert hand_off is not None
        await scene.meter.end()
        return sent[predecessor], hand_off

    def quick(self) -> HandOffs:
        """A few hand-offs with a short line."""
        return replace(self, waiters=min(self.waiters, 12), hand_offs=4, nodes=1)
