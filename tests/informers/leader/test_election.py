"""Acquisition of the lease, and its record: settings, identity, expiry, roles."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import anyio
import pytest

from informers.leader.election import ElectionSettings
from tests.informers.leader.lease_server import (
    Client,
    LeaseServer,
    Process,
    done,
    hang,
    leader,
    lease_server,
    make_elector,
)
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.mark.parametrize(
    "settings",
    [
        (10, 10, 2),
        (10, 15, 2),
        (15, 2.4, 2),
        (15, 10, 0),
        (15, 10, -1),
        (float("nan"), 10, 2),
        (float("inf"), 10, 2),
    ],
)
def test_E2_invalid_settings_are_rejected_with_one_clear_message(
    settings: tuple[float, float, float],
) -> None:
    with pytest.raises(ValueError, match=r"lease duration > renew deadline > 1\.2 x retry period > 0, got"):
        make_elector(Client(LeaseServer()), settings=ElectionSettings(*settings))


async def test_E2_a_fractional_lease_duration_is_rounded_up() -> None:
    async with lease_server() as server:
        elector = make_elector(Client(server), settings=ElectionSettings(2.5, 1.5, 0.5))
        await elector.run(done)
        first = server.history[0][1]
        assert first["leaseDurationSeconds"] == 3


async def test_E11_two_processes_with_one_name_have_two_identities() -> None:
    async with lease_server() as server:
        first = await leader(server)
        twin = Process(server)
        twin.elector = make_elector(twin.client, "a", suffix="2")
        twin.start()
        await anyio.sleep(60)
        assert (first.elector.identity, twin.elector.identity) == ("a_1", "a_2")
        assert first.elector.leading
        assert not twin.started


@pytest.mark.parametrize("hours", [-1, 1])
async def test_E1_a_wrong_wall_clock_neither_acquires_nor_keeps_a_lease(hours: int) -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b", wall_offset=timedelta(hours=hours)).start()
        await anyio.sleep(100)
        assert not second.started
        first.client.before = hang
        await anyio.sleep(30)
        assert second.elector.leading
        last_renewal = max(at for at, spec in server.history if spec.get("holderIdentity") == "a_1")
        assert last_renewal + 15 <= second.started[0] <= last_renewal + 15 + 2.5 + 2.4


async def test_E1_a_change_of_labels_is_not_a_renewal() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(10)
        first.client.before = hang
        for _ in range(30):
            server.touch()
            await anyio.sleep(1)
        assert second.elector.leading


async def test_E1_a_leader_with_a_stopped_wall_clock_still_renews() -> None:
    async with lease_server() as server:
        first = Process(server)
        first.elector._wall_clock = lambda: datetime(2026, 1, 1, tzinfo=UTC)
        first.start()
        await anyio.sleep(1)
        second = Process(server, "b").start()
        await anyio.sleep(100)
        assert first.elector.leading
        assert not second.started


async def test_E1_the_lease_duration_of_the_holder_applies() -> None:
    async with lease_server() as server:
        server.create(
            {"metadata": {"name": "controller"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 40}}
        )
        process = Process(server).start()
        await anyio.sleep(60)
        assert 40 <= process.started[0] <= 42.5


async def test_times_in_the_record_come_from_the_injected_clock_in_utc() -> None:
    async with lease_server() as server:
        process = Process(server)
        new_york = timezone(timedelta(hours=-5))
        process.elector._wall_clock = lambda: datetime(2026, 1, 1, 20, 0, 0, 42, tzinfo=new_york)
        process.start()
        await anyio.sleep(1)
        assert server.spec["acquireTime"] == server.spec["renewTime"] == "2026-01-02T01:00:00.000042Z"


async def test_E12_candidates_retry_with_jitter() -> None:
    async with lease_server() as server:
        await leader(server)
        server.requests.clear()
        Process(server, "b", seed=7).start()
        await anyio.sleep(100)
        tried = [at for at, verb in server.requests if verb == "get"]
        gaps = [later - earlier for earlier, later in pairwise(tried)]
        assert all(2 <= gap <= 2.4 for gap in gaps)
        assert len({round(gap, 6) for gap in gaps}) == len(gaps)


async def test_E12_a_lease_deleted_by_hand_is_recreated_by_its_leader() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        for _ in range(20):
            await anyio.sleep(3.3)
            server.object = None
        await anyio.sleep(3)
        assert first.elector.leading
        assert server.holder == "a_1"
        assert not second.started


async def test_E14_transitions_count_takeovers_only() -> None:
    async with lease_server() as server:
        first = await leader(server)
        await anyio.sleep(30)
        assert server.spec["leaseTransitions"] == 0
        acquired = server.spec["acquireTime"]
        second = Process(server, "b").start()
        await anyio.sleep(3)
        assert server.spec["acquireTime"] == acquired
        first.scope.cancel()
        await first.finished.wait()
        await anyio.sleep(30)
        assert second.elector.leading
        assert server.spec["leaseTransitions"] == 1
        assert server.spec["acquireTime"] > acquired
        for field in ("acquireTime", "renewTime"):
            assert re.fullmatch(r"2026-01-01T00:\d\d:\d\d\.\d{6}Z", server.spec[field])


async def test_E14_a_takeover_keeps_labels_and_fields_of_others() -> None:
    async with lease_server() as server:
        server.create({"metadata": {"name": "controller", "labels": {"app": "x"}}, "spec": {"strategy": "s"}})
        await leader(server)
        assert server.object is not None
        assert server.object["metadata"]["labels"] == {"app": "x"}
        assert server.spec["strategy"] == "s"


async def test_statistics_and_repr_show_the_role(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with lease_server() as server:
        process = Process(server)
        assert repr(process.elector) == "<LeaderElector ns/controller a_1 standby>"
        assert process.elector._renewed_at == float("-inf")
        process.start()
        await anyio.sleep(3)
        assert repr(process.elector) == "<LeaderElector ns/controller a_1 leader>"
        statistics = process.elector.statistics()
        assert (statistics.leading, server.holder, statistics.terms_total) == (True, "a_1", 1)
        assert anyio.current_time() - process.elector._renewed_at == pytest.approx(1)
        assert caplog.messages == ["Observed lease holder", "Became leader"]
        observed, became = map(vars, caplog.records)
        assert (observed["holder"], observed["lease"], became["identity"]) == ("a_1", "ns/controller", "a_1")
