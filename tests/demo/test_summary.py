"""The results of the demo in rows and sentences, and the rules that it must not violate."""

from __future__ import annotations

from simulation.demo.cluster_view import ClaimRow, ClusterView, State
from simulation.demo.history import Record
from simulation.demo.summary import SummaryRow, conclusions, summary_rows, violations, waits
from tests.demo.build import BUSY, FULL, ending, revisions, worker

SHARED = ClaimRow("c", "n-0", ("gpu-0",), ("fft-2", "fft-3"), exclusive=False)
PAIR = ClaimRow("p", "n-1", ("gpu-0", "gpu-1"), ("pair-1",), exclusive=True)

LEFT = worker("fft-1", State.DELETING, claim="c", node="n-0")
TAKER = worker("fft-2", State.RUNNING, claim="c", node="n-0")
WAITER = worker("lora-1", State.WAITING, claim="own", reason=BUSY)
PAIRED = worker("pair-1", State.RUNNING, claim="p", node="n-1")

RECORDS = [
    Record(LEFT, 0.0, first_ran_seconds=0.5, gone_seconds=2.0),
    Record(TAKER, 1.0, first_ran_seconds=2.0, wait_reason=FULL),
    Record(PAIRED, 1.0, first_ran_seconds=1.25),
    Record(WAITER, 1.0, wait_reason=BUSY),
]
VIEW = ClusterView((TAKER, PAIRED, WAITER), (SHARED, PAIR))


def test_each_worker_has_a_row_with_node_sharers_and_wait() -> None:
    assert summary_rows(ending(VIEW, RECORDS)) == [
        SummaryRow("fft-1", "deleted", "", "0.5 s"),
        SummaryRow("fft-2", "runs on n-0", "fft-3", "1.0 s"),
        SummaryRow("pair-1", "runs on 2 GPUs of n-1", "nobody", "0.2 s"),
        SummaryRow("lora-1", "waiting", "", "9.0 s so far"),
    ]


def test_a_running_worker_that_waited_is_listed_with_its_reason() -> None:
    rows = waits(ending(VIEW, RECORDS))

    assert [(row.workers, row.reason) for row in rows] == [(("fft-2",), FULL), (("lora-1",), BUSY)]


def test_the_conclusions_report_usage_limit_and_hand_off() -> None:
    seen = revisions(("x", ["fft-1", "fft-3"]), ("x", ["fft-3"]), ("x", ["fft-3", "fft-2"]))

    now, limit, handoff, _ = conclusions(ending(VIEW, RECORDS, seen), devices=4, limit=2)

    assert now == "Now: 2 running on 3 of 4 GPUs, 1 waiting."
    assert limit == "Limit: no claim ever had more than 2 of 2 seats booked, in 3 versions of 1 ledger."
    assert handoff == (
        "Hand-off: the seat of fft-1 was freed 0 ms after the deletion request and booked 1000 ms later; "
        "fft-2 ran 500 ms after the request."
    )


def test_the_drain_sentence_names_workers_that_moved_and_workers_that_wait() -> None:
    *_, drain = conclusions(ending(VIEW, RECORDS), devices=4, limit=1)

    assert drain == (
        "Drain: the workers of n-0 were settled after 500 ms (fft-3 running elsewhere; fft-2 waiting). "
        "After the uncordon, all GPUs were in use within 1000 ms."
    )


def test_a_newly_allocated_gpu_is_not_called_a_seat() -> None:
    *_, handoff, _ = conclusions(ending(VIEW, RECORDS, revisions(("x", ["fft-1"]))), devices=4, limit=1)

    assert handoff == "Hand-off: fft-2 got the GPU of fft-1 and ran 500 ms after the request."


def test_a_ledger_above_the_limit_is_a_violation() -> None:
    seen = revisions(("x", ["a", "b"]), ("x", ["a", "b", "c"]))

    assert violations(VIEW, limit=2, revisions=seen) == ["x has 3 seats at a limit of 2"]
    assert violations(VIEW, limit=3, revisions=seen) == []


def test_only_the_reason_of_a_shared_worker_mentions_the_limit() -> None:
    right = ClusterView((worker("fft-1", State.WAITING, reason=FULL), WAITER), ())
    wrong = ClusterView(
        (worker("fft-1", State.WAITING, reason=BUSY), worker("lora-1", State.WAITING, reason=FULL)), ()
    )

    assert violations(right, limit=2, revisions=()) == []
    assert [violation.split()[0] for violation in violations(wrong, limit=2, revisions=())] == [
        "fft-1",
        "lora-1",
    ]
