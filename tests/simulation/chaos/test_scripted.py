"""Each scripted fault, and what the calling client gets."""

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
class Harness:
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
async def harness() -> Harness:
    server, faults = lone_server(), Faults()
    server.create(LEDGERS, KEY.namespace, {"metadata": {"name": KEY.name}, "spec": {"claimName": "c"}})
    return Harness(server, faults, lone_client(server, faults))


async def test_a_write_with_a_lost_answer_takes_effect(harness: Harness) -> None:
    harness.faults.add(LoseAnswer(), verb="patch")

    with pytest.raises(OutcomeUnknown):
        await harness.label("1")

    assert harness.labels == {"a": "1"}
    assert (await harness.label("2")).metadata.labels == {"a": "2"}, "only once"


async def test_a_lost_answer_can_hide_a_refusal(harness: Harness) -> None:
    harness.faults.add(LoseAnswer(), verb="get")

    with pytest.raises(OutcomeUnknown):
        await harness.client.get(CLAIM_LEDGERS, "absent", KEY.namespace)


async def test_a_lost_request_has_no_effect_and_raises_the_same_error(harness: Harness) -> None:
    harness.faults.add(LoseRequest(), verb="patch")

    with pytest.raises(OutcomeUnknown):
        await harness.label("1")

    assert harness.labels == {}


async def test_a_late_request_takes_effect_after_its_sender_gave_up(harness: Harness) -> None:
    harness.faults.add(ArriveLate(5), verb="patch")

    with pytest.raises(OutcomeUnknown):
        await harness.label("1")
    assert harness.labels == {}
    await anyio.sleep(5.1)

    assert harness.labels == {"a": "1"}


async def test_a_rule_raises_its_error_as_often_as_configured(harness: Harness) -> None:
    rule = harness.faults.add(Refuse(lambda: Forbidden("quota", status=403)), kind=LEDGERS, skip=1, times=2)

    await harness.label("1")
    for _ in range(2):
        with pytest.raises(Forbidden):
            await harness.label("2")
    await harness.label("3")

    assert (harness.labels, rule.hits) == ({"a": "3"}, 2)


async def test_a_rule_does_not_affect_other_calls(harness: Harness) -> None:
    harness.faults.add(Disconnect(), kind=PODS, times=None)
    harness.faults.add(Disconnect(), verb="delete", times=None)
    harness.faults.add(Disconnect(), client="another", times=None)
    harness.faults.add(Disconnect(), subresource="status", times=None)

    await harness.label("1")

    with pytest.raises(Unreachable):
        await harness.client.delete(CLAIM_LEDGERS, KEY.name, KEY.namespace)


async def test_another_client_can_write_first(harness: Harness) -> None:
    read = await harness.client.get(CLAIM_LEDGERS, KEY.name, KEY.namespace)

    def rogue_write() -> None:
        harness.server.patch(LEDGERS, KEY.name, KEY.namespace, {"metadata": {"labels": {"by": "rogue"}}})

    harness.faults.add(Meanwhile(rogue_write), verb="patch")
    version = {"resourceVersion": read.metadata.resource_version}

    with pytest.raises(Conflict):
        await harness.client.patch(
            CLAIM_LEDGERS, KEY.name, {"metadata": {**version, "labels": {"a": "1"}}}, KEY.namespace
        )

    assert harness.labels == {"by": "rogue"}


async def test_a_delay_beyond_the_request_timeout_is_a_lost_answer(harness: Harness) -> None:
    harness.faults.add(Delay(before_seconds=2, after_seconds=3), verb="patch")
    await harness.label("1")
    assert anyio.current_time() == 5

    harness.faults.add(Delay(before_seconds=1, after_seconds=60), verb="patch")
    with pytest.raises(OutcomeUnknown):
        await harness.label("2")

    assert anyio.current_time() == 5 + REQUEST_SECONDS
    assert harness.labels == {"a": "2"}


@pytest.mark.parametrize("applied", [False, True])
async def test_a_crashed_client_gets_no_answer_and_sends_no_request(harness: Harness, applied: bool) -> None:
    harness.faults.add(Crash(harness.client, applied=applied), verb="patch")
    results: list[str] = []

    async def process() -> None:
        try:
            await harness.label("1")
            results.append("answer")
        finally:
            # A dead process would not run this clean-up code: it must not reach the server.
            with anyio.CancelScope(shield=True), anyio.move_on_after(100):
                await harness.client.delete(CLAIM_LEDGERS, KEY.name, KEY.namespace)
                results.append("clean-up")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process)
        await harness.client.wait_crashed()
        await anyio.sleep(60)
        tasks.cancel_scope.cancel()

    assert results == []
    assert harness.labels == ({"a": "1"} if applied else {})


async def test_errors_are_those_of_the_real_transport(harness: Harness) -> None:
    with pytest.raises(NotFound, match=r'claimledgers.openrl.io "absent" not found') as caught:
        await harness.client.get(CLAIM_LEDGERS, "absent", KEY.namespace)

    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
