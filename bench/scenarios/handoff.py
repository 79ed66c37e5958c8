"""Hand-offs of a seat: a seated Workload is deleted, and a waiting one books its seat.

Every waiting worker has its own unallocated claim, and a Pod that kube-scheduler refused. Each hand-off
starts in a settled state. It ends when the successor runs and the controller is quiet. A new waiting worker
is added before the next hand-off, outside the measurement.
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
    """A scenario with a full fleet of shared GPUs and waiting workers."""

    waiters: int
    hand_offs: int
    nodes: int = 2

    freed_to_booked: ClassVar[str] = "seat freed to next seat booked"
    freed_to_running: ClassVar[str] = "seat freed to next running"
    deleted_to_running: ClassVar[str] = "deletion to next running"

    async def measure(self, testbed: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Fill the fleet and the queue, then hand off seat by seat."""
        flags = {**self.flags, "--max-seats-per-claim": str(SEATS_PER_GPU)}
        async with testbed.start(self.name, contender, gpu_fleet(self.nodes), flags) as run:
            await self._fill(run)
            await run.meter.settle()
            latencies: dict[str, list[float]] = {
                self.freed_to_booked: [],
                self.freed_to_running: [],
                self.deleted_to_running: [],
            }
            for number in range(self.hand_offs):
                sent, hand_off = await self._hand_off(run)
                runs = run.observer.timeline.running_since[hand_off.successor]
                latencies[self.freed_to_booked].append(hand_off.booked_seconds - hand_off.freed_seconds)
                latencies[self.freed_to_running].append(runs - hand_off.freed_seconds)
                latencies[self.deleted_to_running].append(runs - sent)
                await self._add_waiting(run, [f"next-{number:04}"])
            return [
                self.sample(
                    run,
                    round_number,
                    operations=self.hand_offs,
                    seconds=sum(latencies[self.deleted_to_running]),
                    latencies=latencies,
                    most_seats=run.observer.timeline.most_seats,
                )
            ]

    async def _fill(self, run: ContenderRun) -> None:
        seats = self.nodes * GPUS_PER_NODE * SEATS_PER_GPU
        names = [f"seated-{number:04}" for number in range(seats)]
        await run.place(names, shared=True, timeout_seconds=STEP_TIMEOUT_SECONDS * 2)
        await self._add_waiting(run, [f"waiter-{number:04}" for number in range(self.waiters)])

    async def _add_waiting(self, run: ContenderRun, names: Sequence[str]) -> None:
        """Add waiting workers, and wait until kube-scheduler refused each and the controller is quiet."""
        await run.testbed.submit(names, shared=True)
        refused = run.observer.timeline.refused
        await run.observer.until(
            lambda: refused.issuperset(names),
            f"{len(names)} more wait with a claim of their own",
            timeout_seconds=STEP_TIMEOUT_SECONDS + len(names),
        )
        await run.meter.quiet()

    async def _hand_off(self, run: ContenderRun) -> tuple[float, HandOff]:
        """Measure one hand-off. Return the time of the deletion and the hand-off."""
        timeline = run.observer.timeline
        # Never release the last seat of a claim: kube-scheduler would allocate the freed device.
        ledger = timeline.ledgers_with(SEATS_PER_GPU)[0]
        predecessor = min(timeline.seats[ledger], key=lambda name: (timeline.running_since[name], name))
        changes_before = len(timeline.changes)
        run.meter.begin()
        sent = await run.testbed.delete([predecessor])

        def completed() -> HandOff | None:
            hand_off = find_hand_off(timeline.changes[changes_before:], ledger, predecessor)
            done = hand_off is not None and hand_off.successor in timeline.running
            return hand_off if done and predecessor not in timeline.present else None

        await run.observer.until(
            lambda: completed() is not None,
            f"the seat of {predecessor} is booked by a running successor",
            timeout_seconds=STEP_TIMEOUT_SECONDS,
        )
        hand_off = completed()
        assert hand_off is not None
        await run.meter.end()
        return sent[predecessor], hand_off

    def quick(self) -> HandOffs:
        """Return a variant with few hand-offs and few waiting workers."""
        return replace(self, waiters=min(self.waiters, 12), hand_offs=4, nodes=1)
