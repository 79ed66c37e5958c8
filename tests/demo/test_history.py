"""A state is measured from the view in which it is first seen."""

from __future__ import annotations

from simulation.demo.cluster_view import ClusterView, State, Worker
from simulation.demo.history import History
from tests.demo.build import BUSY, FULL, worker


def seen(*workers: Worker) -> ClusterView:
    return ClusterView(workers, ())


def test_the_wait_lasts_from_the_first_view_until_the_first_run() -> None:
    history = History()
    history.record(seen(worker("fft-1", State.NEW)), 1.0)
    history.record(seen(worker("fft-1", State.WAITING, reason=FULL)), 2.0)
    history.record(seen(worker("fft-1", State.RUNNING)), 4.0)
    history.record(seen(worker("fft-1", State.RUNNING)), 9.0)

    record = history.records["fft-1"]

    assert (record.first_seen_seconds, record.first_ran_seconds) == (1.0, 4.0)
    assert record.waited_seconds(9.0) == 3.0
    assert record.wait_reason == FULL


def test_the_last_wait_reason_is_kept() -> None:
    history = History()
    for second, reason in enumerate((BUSY, FULL, "")):
        history.record(seen(worker("fft-1", State.WAITING, reason=reason)), float(second))

    assert history.records["fft-1"].wait_reason == FULL


def test_the_wait_of_a_waiting_worker_lasts_until_now() -> None:
    history = History()
    history.record(seen(worker("lora-1", State.WAITING, reason=BUSY)), 1.0)

    assert history.records["lora-1"].waited_seconds(8.0) == 7.0


def test_a_worker_that_never_waited_has_no_wait_reason() -> None:
    history = History()
    history.record(seen(worker("fft-1", State.STARTING, reason="CreatedClaim: t1x80")), 0.0)

    assert not history.records["fft-1"].wait_reason


def test_the_time_at_which_a_worker_is_first_missing_is_kept() -> None:
    history = History()
    history.record(seen(worker("fft-1", State.RUNNING)), 0.0)
    history.record(seen(), 5.0)
    history.record(seen(), 6.0)

    assert history.records["fft-1"].gone_seconds == 5.0
