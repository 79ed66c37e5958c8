"""Failing requests, and that the work stops before the lease can be taken (E3 to E7, E13, E17, E18)."""

from __future__ import annotations

import logging

import anyio
import anyio.lowlevel
import pytest

from informers.errors import Forbidden, OutcomeUnknown
from informers.leader.election import ElectionSettings, LeadershipLost
from tests.informers.leader.lease_server import (
    FAULTS,
    Client,
    Process,
    done,
    failing,
    hang,
    leader,
    lease_server,
    make_elector,
    nothing,
)
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend, block

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


async def test_E3_requests_that_hang_are_cut_off_and_the_work_stops_at_the_renew_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with lease_server() as server:
        process = await leader(server)
        await anyio.sleep(5.5)
        last = server.history[-1][0]
        process.client.before = hang
        await process.finished.wait()
        assert process.ended[0] == pytest.approx(last + 10)
        assert isinstance(process.result, LeadershipLost)
        assert str(process.result) == "no renewal succeeded for 10 s"
        # Each attempt is given up after half the renew deadline, and the next one made.
        tried = [at for at, _ in server.requests if at > last]
        assert tried == pytest.approx([last + 2, last + 9])
        assert "a_1: attempt failed: TimeoutError" in caplog.text
        assert "Traceback" not in caplog.text


async def test_what_goes_wrong_again_and_again_is_said_once_until_an_attempt_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaint = "a_1: attempt failed: Forbidden: no right to leases"
    forbidden = failing(Forbidden("no right to leases"))
    async with lease_server() as server:
        process = Process(server)
        process.client.before = forbidden
        process.start()
        await anyio.sleep(60)
        assert len(server.requests) > 10
        assert caplog.messages == [complaint]
        caplog.set_level(logging.INFO)
        process.client.before = nothing
        await anyio.sleep(10)
        assert "a_1: well again after: Forbidden: no right to leases" in caplog.messages
        process.client.before = forbidden
        await process.finished.wait()
        assert caplog.messages.count(complaint) == 2


async def test_E3_an_attempt_has_at_least_a_second() -> None:
    async with lease_server() as server:
        client = Client(server)

        async def slow(_verb: str) -> None:
            await anyio.sleep(0.45)

        client.before = slow
        elector = make_elector(client, settings=ElectionSettings(3, 1.5, 0.5))
        with anyio.move_on_after(10):
            await elector.run(anyio.sleep_forever)
        assert elector.statistics().terms_total == 1


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
async def test_E4_every_failure_is_a_failed_attempt_of_a_standby(error: Exception) -> None:
    async with lease_server() as server:
        process = Process(server)
        process.client.before = failing(error)
        process.start()
        await anyio.sleep(60)
        assert not process.finished.is_set()
        assert process.elector.statistics().failed_attempts_total > 20
        process.client.before = nothing
        await anyio.sleep(3)
        assert process.elector.leading


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
async def test_E4_a_leader_survives_failures_shorter_than_the_renew_deadline(error: Exception) -> None:
    async with lease_server() as server:
        process = await leader(server)
        for _ in range(10):
            process.client.before = failing(error)
            await anyio.sleep(7)
            process.client.before = nothing
            await anyio.sleep(3)
        assert process.elector.leading
        assert process.elector.statistics().failed_attempts_total >= 20


async def test_E4_a_renewal_that_took_effect_unanswered_does_not_confuse_the_next() -> None:
    async with lease_server() as server:
        process = await leader(server)
        process.client.after = failing(OutcomeUnknown("reset"))
        await anyio.sleep(2)
        process.client.after = nothing
        await anyio.sleep(60)
        assert process.elector.leading
        assert process.elector.statistics().slowpath_total == 1
        assert server.spec["leaseTransitions"] == 0


async def test_E4_a_claim_that_took_effect_unanswered_is_found_and_used() -> None:
    async with lease_server() as server:
        process = Process(server)
        process.client.after = failing(OutcomeUnknown("reset"))
        process.start()
        await anyio.sleep(1)
        assert not process.started
        process.client.after = nothing
        await anyio.sleep(3)
        assert process.elector.leading


async def test_E5_the_work_has_stopped_before_another_can_take_the_lease() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(20)
        first.client.before = hang
        await anyio.sleep(60)
        assert isinstance(first.result, LeadershipLost)
        assert second.started[0] - first.ended[0] >= 15 - 10
        assert second.started[0] - first.ended[0] <= 15 - 10 + 2 * 2.4


async def test_E5_a_slow_answer_does_not_stretch_the_time_to_work() -> None:
    async def answer_late(_verb: str) -> None:
        await anyio.sleep(4)

    async with lease_server() as server:
        process = await leader(server)
        process.client.after = answer_late
        await anyio.sleep(3)
        process.client.before = hang
        renewal_sent_at = server.history[-1][0]
        await process.finished.wait()
        assert process.ended[0] == pytest.approx(renewal_sent_at + 10)


async def test_E5_a_lease_that_someone_else_holds_stops_the_work_at_once() -> None:
    async with lease_server() as server:
        process = await leader(server)
        server.take("x")
        await process.finished.wait()
        assert process.ended[0] <= 2.5
        assert str(process.result) == "the lease is held by x"
        assert server.holder == "x"


async def test_E5_a_lease_that_someone_emptied_stops_the_work_too() -> None:
    async with lease_server() as server:
        process = await leader(server)
        server.take(None)
        await process.finished.wait()
        assert str(process.result) == "the lease is held by nobody"


async def test_E5_an_error_of_work_that_is_being_stopped_is_kept_as_the_cause() -> None:
    async def fail_when_stopped() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise RuntimeError("in clean-up")

    async with lease_server() as server:
        process = Process(server)
        process.work = fail_when_stopped
        process.start()
        await anyio.sleep(1)
        process.client.before = hang
        await process.finished.wait()
        assert isinstance(process.result, LeadershipLost)
        assert isinstance(process.result.__cause__, RuntimeError)


async def test_E5_a_loser_can_run_again_and_lead_again() -> None:
    async with lease_server() as server:
        process = await leader(server)
        process.client.before = hang
        await process.finished.wait()
        process.client.before = nothing
        process.start()
        await anyio.sleep(3)
        assert process.elector.leading
        assert len(process.started) == 2
        assert server.spec["leaseTransitions"] == 0


async def test_E6_the_work_is_called_and_stopped_once_a_term() -> None:
    async with lease_server() as server:
        process = await leader(server)
        await anyio.sleep(100)
        process.scope.cancel()
        await process.finished.wait()
        assert (len(process.started), len(process.ended)) == (1, 1)


async def test_E7_work_that_returns_ends_leadership_and_releases() -> None:
    async with lease_server() as server:
        elector = make_elector(Client(server))
        await elector.run(done)
        assert not elector.leading
        assert server.holder == ""


async def test_E7_work_that_fails_ends_leadership_and_releases_and_its_error_comes_out_bare() -> None:
    async def fail() -> None:
        await anyio.sleep(5)
        raise KeyError("bug")

    async with lease_server() as server:
        elector = make_elector(Client(server))
        with pytest.raises(KeyError, match="bug"):
            await elector.run(fail)
        assert server.holder == ""


async def test_renewals_that_end_by_a_stray_cancellation_end_the_work() -> None:
    async with lease_server() as server:
        process = await leader(server)

        async def stray() -> str | None:
            await anyio.lowlevel.checkpoint()
            raise anyio.get_cancelled_exc_class()

        process.elector._renew = stray  # type: ignore[method-assign]
        await process.finished.wait()
        assert isinstance(process.result, LeadershipLost)
        assert process.ended


async def test_E13_writes_are_allowed_only_inside_the_renew_deadline() -> None:
    async with lease_server() as server:
        process = Process(server)
        assert not process.elector.may_write()
        process.cleanup_seconds = 60
        process.start()
        await anyio.sleep(5)
        assert process.elector.may_write()
        process.client.before = hang
        last = server.history[-1][0]
        await anyio.sleep(last + 9.9 - anyio.current_time())
        assert process.elector.may_write()
        await anyio.sleep(0.2)
        assert process.elector.leading  # The work is still cleaning up,
        assert not process.elector.may_write()  # but may not write.


async def test_E13_a_claim_answered_after_its_time_is_not_acted_upon() -> None:
    async with lease_server() as server:
        client = Client(server)

        async def slow(_verb: str) -> None:
            await anyio.sleep(0.9)

        client.after = slow
        elector = make_elector(client, settings=ElectionSettings(2, 0.8, 0.5))
        with anyio.move_on_after(20):
            await elector.run(anyio.sleep_forever)
        assert elector.statistics().terms_total == 0


async def test_E17_a_block_past_the_renew_deadline_ends_leadership() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(5)
        server.requests.clear()
        block(12)
        assert not first.elector.may_write()
        await anyio.sleep(0.01)
        assert first.ended
        assert isinstance(first.result, LeadershipLost)
        assert [verb for _, verb in server.requests] in ([], ["get"])  # Of the standby: not one more renewal.
        assert not second.started


async def test_E18_liveness_fails_when_work_outlives_the_lease() -> None:
    async with lease_server() as server:
        process = Process(server)
        assert process.elector.healthy(0)
        process.cleanup_seconds = 100
        process.start()
        await anyio.sleep(1)
        process.client.before = hang
        await anyio.sleep(15.5)
        assert process.elector.healthy(20)
        assert not process.elector.healthy(0)
        await anyio.sleep(20)
        assert not process.elector.healthy(20)
        await process.finished.wait()
        assert process.elector.healthy(0)
