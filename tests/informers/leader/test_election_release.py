"""Clean stops: the work ends first, with renewals, then the lease is released (E8, E9, E16)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest

from informers.errors import Unreachable
from tests.informers.leader.lease_server import (
    Process,
    failing,
    hang,
    leader,
    lease_server,
    nothing,
)
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


async def test_E8_a_clean_stop_renews_while_the_work_drains_and_releases_after_it() -> None:
    async with lease_server() as server:
        process = await leader(server)
        second = Process(server, "b").start()
        process.cleanup_seconds = 40
        await anyio.sleep(10)
        stopped_at = anyio.current_time()
        process.scope.cancel()
        await anyio.sleep(30)
        assert process.elector.may_write()
        await process.finished.wait()
        assert process.ended[0] == stopped_at + 40
        renewals = [at for at, spec in server.history if spec.get("holderIdentity") == "a_1"]
        assert max(later - earlier for earlier, later in pairwise(renewals)) <= 2.1
        released_at = next(at for at, spec in server.history if "holderIdentity" not in spec)
        assert released_at >= process.ended[0]
        await anyio.sleep(3)
        assert second.started[0] >= released_at
        assert process.result is None


async def test_E8_a_conflict_on_release_is_retried_after_a_read() -> None:
    async with lease_server() as server:
        process = await leader(server)
        touched: list[str] = []

        async def touch_once(verb: str) -> None:
            await anyio.lowlevel.checkpoint()
            if verb == "patch" and not touched:
                touched.append(verb)
                server.touch()

        process.client.before = touch_once
        process.scope.cancel()
        await process.finished.wait()
        assert touched
        assert server.holder == ""


async def test_E8_a_lease_held_by_another_is_not_released() -> None:
    async with lease_server() as server:
        process = await leader(server)
        server.take("x")
        process.scope.cancel()
        await process.finished.wait()
        assert server.holder == "x"


@pytest.mark.parametrize("fault", [hang, failing(Unreachable("refused")), failing(KeyError("a bug"))])
async def test_E8_release_is_bounded_by_the_renew_deadline(
    fault: Callable[[str], Awaitable[object]], caplog: pytest.LogCaptureFixture
) -> None:
    async with lease_server() as server:
        process = await leader(server)
        stopped_at = anyio.current_time()
        process.client.before = fault
        process.scope.cancel()
        await process.finished.wait()
        assert anyio.current_time() <= stopped_at + 10.001
        assert process.result is None
        assert caplog.messages[-1] == "Failed to release lease"


async def test_E9_release_clears_the_holder_and_a_successor_needs_one_retry_period() -> None:
    async with lease_server() as server:
        process = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(20)
        process.scope.cancel()
        await process.finished.wait()
        released_at, spec = server.history[-1]
        assert "holderIdentity" not in spec
        assert spec["leaseDurationSeconds"] == 1
        await anyio.sleep(3)
        assert second.started[0] - released_at <= 2.4


async def test_E16_a_stopped_standby_never_leads() -> None:
    async with lease_server() as server:
        await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(10)
        requests = len(server.requests)
        second.scope.cancel()
        await second.finished.wait()
        assert not second.started
        assert len(server.requests) == requests


async def test_E16_a_former_leader_on_standby_releases_nothing() -> None:
    async with lease_server() as server:
        first = await leader(server)
        first.client.before = hang
        await first.finished.wait()
        first.client.before = nothing
        await leader(server, "b", within_seconds=20)
        first.start()
        await anyio.sleep(10)
        requests = len(server.requests)
        first.scope.cancel()
        await first.finished.wait()
        assert len(server.requests) == requests


async def test_E16_a_standby_stopped_during_its_claim_leaves_the_lease_free() -> None:
    async with lease_server() as server:
        process = Process(server)

        async def slow(verb: str) -> None:
            await anyio.sleep(3 if verb == "create" else 0)

        process.client.after = slow
        process.start()
        await anyio.sleep(1)
        process.scope.cancel()
        await process.finished.wait()
        assert not process.started
        assert server.holder == ""
