"""What befalls calls on their way, and that a request travels on its own once it was sent."""

from __future__ import annotations

from collections.abc import Callable
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


class Wire:
    """One client, its link and the server."""

    def __init__(self, **faults: Parameters) -> None:
        self.loop = running_virtual_loop()
        self.server: ApiServer = lone_server()
        self.server.create(
            LEDGERS, KEY.namespace, {"metadata": {"name": KEY.name}, "spec": {"claimName": "c"}}
        )
        plan = FaultPlan(MappingProxyType({name.replace("_", "-"): drawn for name, drawn in faults.items()}))
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
        found: set[type[ApiError] | None] = set()
        for number in range(calls):
            try:
                await self.label(str(number))
                found.add(None)
            except ApiError as error:
                found.add(type(error))
        return found

    @property
    def value(self) -> str:
        labels: dict[str, str] = (
            self.server.get(LEDGERS, KEY.name, KEY.namespace).metadata.get("labels") or {}
        )
        return labels.get("a", "")

    def noted(self) -> set[str]:
        return {event.outcome for event in self.trace.last_events}


async def test_a_request_that_was_sent_arrives_though_its_sender_is_dead() -> None:
    wire, process = Wire(), VirtualProcess("p")
    async with anyio.create_task_group() as tasks:
        with in_process(process):
            tasks.start_soon(wire.label, "1")
        await anyio.lowlevel.checkpoint()
        assert wire.client.statistics().in_flight == 1
        wire.loop.kill(process)
        await anyio.sleep(5)
        assert wire.value == "1"
        wire.loop.release(process)
        tasks.cancel_scope.cancel()


async def test_a_request_whose_sender_gave_up_arrives_all_the_same() -> None:
    wire = Wire()
    with anyio.move_on_after(1e-6):
        await wire.label("1")
    assert wire.value == ""
    await anyio.sleep(1)

    assert wire.value == "1"


FAULTS: dict[str, tuple[Parameters, set[type[ApiError] | None], str]] = {
    "lost_answers": ({"rate": 1.0}, {OutcomeUnknown}, "answer lost"),
    "lost_requests": ({"rate": 1.0}, {OutcomeUnknown}, "lost request"),
    "late_writes": ({"rate": 1.0, "seconds": 20.0}, {OutcomeUnknown}, "late"),
    "rogue_writes": ({"rate": 1.0}, {None}, "ok"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_faults_of_calls(name: str) -> None:
    parameters, heard, noted = FAULTS[name]
    wire = Wire(**{name: parameters})
    touched: list[object] = []
    wire.network.rogue_write = touched.append

    assert await wire.outcomes(5) == heard
    assert noted in wire.noted()
    assert bool(touched) == (name == "rogue_writes")
    await anyio.sleep(60)
    assert (wire.value == "") == (name == "lost_requests")


async def test_a_burst_answers_with_what_overloaded_servers_say() -> None:
    wire = Wire()
    wire.network.error_share = 1.0

    assert await wire.outcomes(40) == {TooManyRequests, ServerError}
    assert wire.value == ""


async def test_a_link_that_is_cut_lets_nothing_through() -> None:
    wire = Wire()
    wire.link.is_cut = True
    began = anyio.current_time()

    assert await wire.outcomes(20) == {OutcomeUnknown, Unreachable}
    assert wire.value == ""
    assert anyio.current_time() - began > REQUEST_SECONDS, "some waited for their time limit"


@pytest.mark.parametrize(("moment", "applied"), [("before", False), ("after", True)])
async def test_a_process_may_die_at_a_write(moment: str, applied: bool) -> None:
    wire = Wire()
    wire.link.crash_at_next_write = moment
    with anyio.move_on_after(1):
        await wire.label("1")

    assert wire.killed
    assert (wire.value == "1") is applied


@pytest.mark.parametrize("heal", [lambda wire: setattr(wire.network, "is_healthy", True)])
async def test_a_healthy_network_hurts_nothing(heal: Callable[[Wire], None]) -> None:
    wire = Wire(lost_answers={"rate": 1.0}, latency={"median_seconds": 9.0, "sigma": 0.1, "long_rate": 0.0})
    heal(wire)

    assert await wire.outcomes(5) == {None}
    assert anyio.current_time() < 1
