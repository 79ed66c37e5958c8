"""Each fault, and what the calling client hears of it."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import pytest

from controller.cluster.caches import CLAIM_LEDGERS
from informers.api import ObjectKey
from informers.errors import Conflict, Forbidden, NotFound, OutcomeUnknown, Unreachable
from ledger.state import ClaimLedger
from simulation.apiserver.client import REQUEST_SECONDS, ApiClient
from simulation.apiserver.kinds import LEDGERS, PODS
from simulation.apiserver.server import ApiServer
from simulation.chaos.scripted import (
    ArriveLate,
    Crash,
    Delay,
    Disconnect,
    Faults,
    LoseAnswer,
    LoseRequest,
    Meanwhile,
    Refuse,
)
from tests.simulation.servers import lone_client, lone_server

pytestmark = pytest.mark.anyio

KEY = ObjectKey("default", "ledger-a")


@dataclass
class World:
    server: ApiServer
    faults: Faults
    client: ApiClient

    async def label(self, value: str) -> ClaimLedger:
        patch = {"metadata": {"labels": {"a": value}}}
        return await self.client.patch(CLAIM_LEDGERS, KEY.name, patch, KEY.namespace)

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.server.get(LEDGERS, KEY.name, KEY.namespace).metadata.get("labels") or {})


@pytest.fixture
async def world() -> World:
    server, faults = lone_server(), Faults()
    server.create(LEDGERS, KEY.namespace, {"metadata": {"name": KEY.name}, "spec": {"claimName": "c"}})
    return World(server, faults, lone_client(server, faults))


async def test_a_lost_answer_is_of_a_write_that_took_effect(world: World) -> None:
    world.faults.add(LoseAnswer(), verb="patch")

    with pytest.raises(OutcomeUnknown):
        await world.label("1")

    assert world.labels == {"a": "1"}
    assert (await world.label("2")).metadata.labels == {"a": "2"}, "once"


async def test_the_lost_answer_may_have_been_a_refusal(world: World) -> None:
    world.faults.add(LoseAnswer(), verb="get")

    with pytest.raises(OutcomeUnknown):
        await world.client.get(CLAIM_LEDGERS, "nobody", KEY.namespace)


async def test_a_lost_request_takes_no_effect_and_sounds_the_same(world: World) -> None:
    world.faults.add(LoseRequest(), verb="patch")

    with pytest.raises(OutcomeUnknown):
        await world.label("1")

    assert world.labels == {}


async def test_a_late_request_takes_effect_after_its_sender_gave_up(world: World) -> None:
    world.faults.add(ArriveLate(5), verb="patch")

    with pytest.raises(OutcomeUnknown):
        await world.label("1")
    assert world.labels == {}
    await anyio.sleep(5.1)

    assert world.labels == {"a": "1"}


async def test_a_refusal_is_the_error_that_was_asked_for_as_often_as_asked(world: World) -> None:
    rule = world.faults.add(Refuse(lambda: Forbidden("quota", status=403)), kind=LEDGERS, skip=1, times=2)

    await world.label("1")
    for _ in range(2):
        with pytest.raises(Forbidden):
            await world.label("2")
    await world.label("3")

    assert (world.labels, rule.hits) == ({"a": "3"}, 2)


async def test_other_calls_are_not_hurt(world: World) -> None:
    world.faults.add(Disconnect(), kind=PODS, times=None)
    world.faults.add(Disconnect(), verb="delete", times=None)
    world.faults.add(Disconnect(), client="another", times=None)
    world.faults.add(Disconnect(), subresource="status", times=None)

    await world.label("1")

    with pytest.raises(Unreachable):
        await world.client.delete(CLAIM_LEDGERS, KEY.name, KEY.namespace)


async def test_somebody_else_may_come_first(world: World) -> None:
    read = await world.client.get(CLAIM_LEDGERS, KEY.name, KEY.namespace)

    def rogue() -> None:
        world.server.patch(LEDGERS, KEY.name, KEY.namespace, {"metadata": {"labels": {"by": "rogue"}}})

    world.faults.add(Meanwhile(rogue), verb="patch")
    version = {"resourceVersion": read.metadata.resource_version}

    with pytest.raises(Conflict):
        await world.client.patch(
            CLAIM_LEDGERS, KEY.name, {"metadata": {**version, "labels": {"a": "1"}}}, KEY.namespace
        )

    assert world.labels == {"by": "rogue"}


async def test_a_delay_takes_time_and_too_long_a_one_is_a_lost_answer(world: World) -> None:
    world.faults.add(Delay(before_seconds=2, after_seconds=3), verb="patch")
    await world.label("1")
    assert anyio.current_time() == 5

    world.faults.add(Delay(before_seconds=1, after_seconds=60), verb="patch")
    with pytest.raises(OutcomeUnknown):
        await world.label("2")

    assert anyio.current_time() == 5 + REQUEST_SECONDS
    assert world.labels == {"a": "2"}


@pytest.mark.parametrize("applied", [False, True])
async def test_a_crashed_client_never_hears_and_is_never_heard_again(world: World, applied: bool) -> None:
    world.faults.add(Crash(world.client, applied=applied), verb="patch")
    heard: list[str] = []

    async def process() -> None:
        try:
            await world.label("1")
            heard.append("answer")
        finally:
            # Clean-up code that a dead process would not run must not reach the server either.
            with anyio.CancelScope(shield=True), anyio.move_on_after(100):
                await world.client.delete(CLAIM_LEDGERS, KEY.name, KEY.namespace)
                heard.append("clean-up")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process)
        await world.client.wait_crashed()
        await anyio.sleep(60)
        tasks.cancel_scope.cancel()

    assert heard == []
    assert world.labels == ({"a": "1"} if applied else {})


async def test_errors_are_those_of_the_real_transport(world: World) -> None:
    with pytest.raises(NotFound, match=r'claimledgers.openrl.io "nobody" not found') as caught:
        await world.client.get(CLAIM_LEDGERS, "nobody", KEY.namespace)

    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
