"""What is measured is when something was first seen."""

from __future__ import annotations

from simulation.demo.cluster_view import ClusterView, State, Worker
from simulation.demo.history import History
from tests.demo.build import BUSY, FULL, worker


def seen(*workers: Worker) -> ClusterView:
    return ClusterView(workers, ())


def test_a_worker_waited_from_when_it_came_until_it_ran() -> None:
    history = History()
    history.see(seen(worker("fft-1", State.NEW)), 1.0)
    history.see(seen(worker("fft-1", State.WAITING, reason=FULL)), 2.0)
    history.see(seen(worker("fft-1", State.RUNNING)), 4.0)
    history.see(seen(worker("fft-1", State.RUNNING)), 9.0)

    record = history.records["fft-1"]

    assert (record.came_seconds, record.ran_seconds) == (1.0, 4.0)
    assert record.waited_seconds(9.0) == 3.0
    assert record.waited_for == FULL


def test_the_reason_that_is_kept_is_the_last() -> None:
    history = History()
    for second, reason in enumerate((BUSY, FULL, "")):
        history.see(seen(worker("fft-1", State.WAITING, reason=reason)), float(second))

    assert history.records["fft-1"].waited_for == FULL


def test_a_worker_that_still_waits_has_waited_until_now() -> None:
    history = History()
    history.see(seen(worker("lora-1", State.WAITING, reason=BUSY)), 1.0)

    assert history.records["lora-1"].waited_seconds(8.0) == 7.0


def test_a_worker_that_never_waited_has_no_reason() -> None:
    history = History()
    history.see(seen(worker("fft-1", State.STARTING, reason="CreatedClaim: t1x80")), 0.0)

    assert not history.records["fft-1"].waited_for


def test_a_worker_that_is_seen_no_more_has_left_once() -> None:
    history = History()
    history.see(seen(worker("fft-1", State.RUNNING)), 0.0)
    history.see(seen(), 5.0)
    history.see(seen(), 6.0)

    assert history.records["fft-1"].left_seconds == 5.0
