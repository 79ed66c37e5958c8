"""Faults of calls, and the independence of a sent request from its sender."""

from __future__ import annotations

from contextvars import copy_context
from types import MappingProxyType

import anyio
import anyio.lowlevel
import pytest

from controller.cluster.caches import CLAIM_LEDGERS
from informers.api import ObjectKey
from informers.errors import ApiError, OutcomeUnknown, ServerError, TooManyRequests, Unreachable
from simulation.apiserver.client import REQUEST_SECONDS, ApiClient
from simulation.apiserver.kinds import LEDGERS
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import Watches
from simulation.cluster.network import Link, Network
from simulation.engine.fault_plan import FaultPlan, Parameters
from simulation.engine.process import VirtualProcess, in_process
from simulation.engine.random_streams import Streams
from simulation.engine.trace import Trace
from simulation.engine.virtual_loop import running_virtual_loop
from tests.simulation.servers import lone_server

pytestmark = pytest.mark.anyio

KEY = ObjectKey("default", "ledger-a")


class Harness:
    """One client, its link and the server."""

    def __init__(self, **faults: Parameters) -> None:
        self.loop = running_virtual_loop()
        self.server: ApiServer = lone_server()
        self.server.create(
            LEDGERS, KEY.namespace, {"metadata": {"name": KEY.name}, "spec": {"claimName": "c"}}
        )
        plan = FaultPlan(
            MappingProxyType({name.replace("_", "-"): parameters for name, parameters in faults.items()})
        )
        self.trace = Trace(lambda: self.loop.simulated_seconds)
        self.network = Network(self.loop, copy_context(), plan, self.trace)
        self.killed = False
        self.link = Link(self.network, "p", Streams(1).get("p"), self.kill)
        watches = Watches(self.server.store)
        self.client = ApiClient(self.server, watches, "p", interceptor=self.link, latency_seconds=None)

    def kill(self) -> None:
        self.killed = True

    async def label(self, value: str) -> None:
        patch = {"metadata": {"labels": {"a": value}}}
        await self.client.patch(CLAIM_LEDGERS, KEY.name, patch, KEY.namespace)

    async def outcomes(self, calls: int) -> set[type[ApiError] | None]:
        results: set[type[ApiError] | None] = set()
        for number in range(calls):
            try:
                await self.label(str(number))
                results.add(None)
            except ApiError as error:
                results.add(type(error))
        return results

    @property
    def value(self) -> str:
        labels: dict[str, str] = (
            self.server.get(LEDGERS, KEY.name, KEY.namespace).metadata.get("labels") or {}
        )
        return labels.get("a", "")

    def traced_outcomes(self) -> set[str]:
        return {event.outcome for event in self.trace.last_events}


async def test_a_sent_request_arrives_although_its_sender_is_dead() -> None:
    harness, process = Harness(), VirtualProcess("p")
    async with anyio.create_task_group() as tasks:
        with in_process(process):
            tasks.start_soon(harness.label, "1")
        await anyio.lowlevel.checkpoint()
        assert harness.client.statistics().in_flight == 1
        harness.loop.kill(process)
        await anyio.sleep(5)
        assert harness.value == "1"
        harness.loop.release(process)
        tasks.cancel_scope.cancel()


async def test_a_request_whose_sender_gave_up_still_arrives() -> None:
    harness = Harness()
    with anyio.move_on_after(1e-6):
        await harness.label("1")
    assert harness.value == ""
    await anyio.sleep(1)

    assert harness.value == "1"


FAULTS: dict[str, tuple[Parameters, set[type[ApiError] | None], str]] = {
    "lost_answers": ({"rate": 1.0}, {OutcomeUnknown}, "answer lost"),
    "lost_requests": ({"rate": 1.0}, {OutcomeUnknown}, "lost request"),
    "late_writes": ({"rate": 1.0, "seconds": 20.0}, {OutcomeUnknown}, "late"),
    "rogue_writes": ({"rate": 1.0}, {None}, "ok"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_each_fault_of_a_call_has_its_error_and_effect(name: str) -> None:
    parameters, results, outcome = FAULTS[name]
    harness = Harness(**{name: parameters})
    touched: list[object] = []
    harness.network.rogue_write = touched.append

    assert await harness.outcomes(5) == results
    assert outcome in harness.traced_outcomes()
    assert bool(touched) == (name == "rogue_writes")
    await anyio.sleep(60)
    assert (harness.value == "") == (name == "lost_requests")


async def test_an_error_burst_returns_the_errors_of_overloaded_servers() -> None:
    harness = Harness()
    harness.network.error_share = 1.0

    assert await harness.outcomes(40) == {TooManyRequests, ServerError}
    assert harness.value == ""


async def test_a_cut_link_drops_everything() -> None:
    harness = Harness()
    harness.link.is_cut = True
    started = anyio.current_time()

    assert await harness.outcomes(20) == {OutcomeUnknown, Unreachable}
    assert harness.value == ""
    assert anyio.current_time() - started > REQUEST_SECONDS, "some calls reached their timeout"


@pytest.mark.parametrize(("time", "applied"), [("before", False), ("after", True)])
async def test_a_process_can_be_killed_at_a_write(time: str, applied: bool) -> None:
    harness = Harness()
    harness.link.crash_at_next_write = time
    with anyio.move_on_after(1):
        await harness.label("1")

    assert harness.killed
    assert (harness.value == "1") is applied


async def test_a_healthy_network_injects_no_fault() -> None:
    harness = Harness(
        lost_answers={"rate": 1.0}, latency={"median_seconds": 9.0, "sigma": 0.1, "long_rate": 0.0}
    )
    harness.network.is_healthy = True

    assert await harness.outcomes(5) == {None}
    assert anyio.current_time() < 1
