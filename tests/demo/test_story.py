"""The story on virtual time: its measurements, and failures of the controller that it must detect."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from rich.console import Console

from informers.api import WatchEventType
from placement.types import GIB
from simulation.apiserver.kinds import LEDGERS
from simulation.apiserver.store import Change
from simulation.cluster.controller_process import SETTINGS, SimulatedProcess, simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE, SimulatedCluster
from simulation.demo.handoff import Revision
from simulation.demo.plan import DemoPlan
from simulation.demo.screen import Screen
from simulation.demo.stage import DemoFailed
from simulation.demo.story import PAUSE_SECONDS, Story
from simulation.demo.workplace import Workplace
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio

PLAN = DemoPlan.checked(nodes=2, gpus=2, gpu_memory=80 * GIB, limit=2, workers=None, seed=0)


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


class SimulatedStage:
    """A stage on virtual time. The test passes its client to the story directly."""

    kubeconfig = Path("/nonexistent")

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.ended = False
        self._revisions: list[Revision] = []
        cluster.server.store.subscribe(self._record)

    def require_alive(self) -> None:
        if self.ended:
            raise DemoFailed("the controller ended with status 1")

    def revisions(self) -> list[Revision]:
        return self._revisions

    def _record(self, change: Change) -> None:
        if change.kind is LEDGERS and change.type is not WatchEventType.DELETED:
            seats = tuple(seat["workload"] for seat in change.record.document["spec"].get("seats") or ())
            self._revisions.append(Revision(change.record.key.name, seats, anyio.current_time()))


@asynccontextmanager
async def stage_and_story(
    *, live: bool = False
) -> AsyncIterator[tuple[SimulatedCluster, SimulatedStage, Story]]:
    async with SimulatedCluster() as cluster:
        cluster.fleet.add_nodes(PLAN.nodes, NodeShape(gpus=PLAN.gpus))
        stage = SimulatedStage(cluster)
        console = Console(file=io.StringIO(), width=100, force_terminal=live)
        screen = Screen(console, live=live, devices=PLAN.devices, limit=PLAN.limit)
        yield cluster, stage, Story(stage, Workplace(cluster.client("user"), WORKER_NAMESPACE), PLAN, screen)


def controller(cluster: SimulatedCluster, *, limit: int) -> AbstractAsyncContextManager[SimulatedProcess]:
    return simulated_controller(cluster, SETTINGS.model_copy(update={"max_seats_per_claim": limit}))


async def test_measured_times_exclude_the_pauses_for_the_reader() -> None:
    async with stage_and_story(live=True) as (cluster, _, story), controller(cluster, limit=PLAN.limit):
        ending = await story.run()

    drain, replacement = ending.drain, ending.replacement
    assert drain.settled_seconds - drain.requested_seconds < PAUSE_SECONDS
    assert drain.reopened_seconds - drain.settled_seconds == pytest.approx(PAUSE_SECONDS)
    assert drain.full_seconds - drain.reopened_seconds < PAUSE_SECONDS
    assert ending.records[replacement.successor].first_ran_seconds is not None
    assert ending.view.running_devices == PLAN.devices


async def test_an_exceeded_limit_fails_the_demo() -> None:
    async with stage_and_story() as (cluster, _, story), controller(cluster, limit=PLAN.limit + 1):
        with pytest.raises(DemoFailed, match=r"^ledger-fft-\d-\w+ has 3 seats at a limit of 2$"):
            await story.run()


async def test_a_controller_that_does_nothing_fails_the_demo_after_the_timeout() -> None:
    async with stage_and_story() as (_, _, story):
        with pytest.raises(DemoFailed, match=r"not within 60 s: pair-1, lora-1 running"):
            await story.run()


async def test_an_ended_controller_fails_the_demo_at_once() -> None:
    async with stage_and_story() as (_, stage, story):
        stage.ended = True
        with pytest.raises(DemoFailed, match="the controller ended with status 1"):
            await story.run()

        assert anyio.current_time() == 0
