"""Failing requests; the work stops before another process can lead (E3 to E7, E13, E17, E18)."""

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


async def test_E3_hanging_requests_time_out_and_the_work_stops_at_the_renew_deadline(
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
        # Each attempt times out after half the renew deadline, and another follows.
        tried = [at for at, _ in server.requests if at > last]
        assert tried == pytest.approx([last + 2, last + 9])
        failed = next(vars(record) for record in caplog.records if "failed" in record.message)
        assert (failed["message"], failed["identity"]) == ("Election attempt failed", "a_1")
        assert failed["err"].startswith("TimeoutError")
        assert "Traceback" not in caplog.text


async def test_a_repeated_error_is_logged_once_until_an_attempt_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    err = "Forbidden: no right to leases"
    failed = "Election attempt failed"
    forbidden = failing(Forbidden("no right to leases"))
    async with lease_server() as server:
        process = Process(server)
        process.client.before = forbidden
        process.start()
        await anyio.sleep(60)
        assert len(server.requests) > 10
        assert [(record.message, vars(record)["err"]) for record in caplog.records] == [(failed, err)]
        caplog.set_level(logging.INFO)
        process.client.before = nothing
        await anyio.sleep(10)
        assert ("Recovered election", err) in [(r.message, vars(r).get("err")) for r in caplog.records]
        process.client.before = forbidden
        await process.finished.wait()
        assert caplog.messages.count(failed) == 2


async def test_E3_an_attempt_has_at_least_one_second() -> None:
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
async def test_E4_every_error_is_a_failed_attempt_of_a_standby(error: Exception) -> None:
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


async def test_E4_a_renewal_with_a_lost_response_does_not_affect_the_next() -> None:
    async with lease_server() as server:
        process = await leader(server)
        process.client.after = failing(OutcomeUnknown("reset"))
        await anyio.sleep(2)
        process.client.after = nothing
        await anyio.sleep(60)
        assert process.elector.leading
        assert process.elector.statistics().slowpath_total == 1
        assert server.spec["leaseTransitions"] == 0


async def test_E4_a_claim_with_a_lost_response_is_detected_and_used() -> None:
    async with lease_server() as server:
        process = Process(server)
        process.client.after = failing(OutcomeUnknown("reset"))
        process.start()
        await anyio.sleep(1)
        assert not process.started
        process.client.after = nothing
        await anyio.sleep(3)
        assert process.elector.leading


async def test_E5_the_work_stops_before_another_process_can_acquire_the_lease() -> None:
    async with lease_server() as server:
        first = await leader(server)
        second = Process(server, "b").start()
        await anyio.sleep(20)
        first.client.before = hang
        await anyio.sleep(60)
        assert isinstance(first.result, LeadershipLost)
        assert second.started[0] - first.ended[0] >= 15 - 10
        assert second.started[0] - first.ended[0] <= 15 - 10 + 2 * 2.4


async def test_E5_a_slow_response_does_not_extend_the_renew_deadline() -> None:
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


async def test_E5_a_lease_held_by_another_stops_the_work_at_once() -> None:
    async with lease_server() as server:
        process = await leader(server)
        server.take("x")
        await process.finished.wait()
        assert process.ended[0] <= 2.5
        assert str(process.result) == "the lease is held by x"
        assert server.holder == "x"


async def test_E5_a_lease_emptied_by_another_stops_the_work_too() -> None:
    async with lease_server() as server:
        process = await leader(server)
        server.take(None)
        await process.finished.wait()
        assert str(process.result) == "the lease is held by nobody"


async def test_E5_an_error_raised_while_stopping_is_kept_as_the_cause() -> None:
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


async def test_E5_a_former_leader_can_run_and_lead_again() -> None:
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


async def test_E6_the_work_is_called_and_stopped_once_per_term() -> None:
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


async def test_E7_failing_work_ends_leadership_releases_and_raises_its_own_error() -> None:
    async def fail() -> None:
        await anyio.sleep(5)
        raise KeyError("bug")

    async with lease_server() as server:
        elector = make_elector(Client(server))
        with pytest.raises(KeyError, match="bug"):
            await elector.run(fail)
        assert server.holder == ""


async def test_renewals_ended_by_a_leaked_cancellation_end_the_work() -> None:
    async with lease_server() as server:
        process = await leader(server)

        async def leak() -> str | None:
            await anyio.lowlevel.checkpoint()
            raise anyio.get_cancelled_exc_class()

        process.elector._renew = leak  # type: ignore[method-assign]
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


async def test_E13_a_claim_answered_after_the_renew_deadline_is_not_used() -> None:
    async with lease_server() as server:
        client = Client(server)

        async def slow(_verb: str) -> None:
            await anyio.sleep(0.9)

        client.after = slow
        elector = make_elector(client, settings=ElectionSettings(2, 0.8, 0.5))
        with anyio.move_on_after(20):
            await elector.run(anyio.sleep_forever)
        assert elector.statistics().terms_total == 0


async def test_E17_a_loop_blocked_past_the_renew_deadline_ends_leadership() -> None:
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
        assert [verb for _, verb in server.requests] in ([], ["get"])  # From the standby: no further renewal.
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
