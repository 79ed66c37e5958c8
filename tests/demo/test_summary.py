"""The end of the story in words, and the promises that must not have been broken."""

from __future__ import annotations

from simulation.demo.cluster_view import ClaimRow, ClusterView, State
from simulation.demo.history import Record
from simulation.demo.summary import SummaryRow, broken_promises, conclusions, summary_rows, waits
from tests.demo.build import BUSY, FULL, ending, revisions, worker

SHARED = ClaimRow("c", "n-0", ("gpu-0",), ("fft-2", "fft-3"), exclusive=False)
PAIR = ClaimRow("p", "n-1", ("gpu-0", "gpu-1"), ("pair-1",), exclusive=True)

LEFT = worker("fft-1", State.LEAVING, claim="c", node="n-0")
TAKER = worker("fft-2", State.RUNNING, claim="c", node="n-0")
WAITER = worker("lora-1", State.WAITING, claim="own", reason=BUSY)
PAIRED = worker("pair-1", State.RUNNING, claim="p", node="n-1")

RECORDS = [
    Record(LEFT, 0.0, ran_seconds=0.5, left_seconds=2.0),
    Record(TAKER, 1.0, ran_seconds=2.0, waited_for=FULL),
    Record(PAIRED, 1.0, ran_seconds=1.25),
    Record(WAITER, 1.0, waited_for=BUSY),
]
VIEW = ClusterView((TAKER, PAIRED, WAITER), (SHARED, PAIR))


def test_each_worker_has_a_row_with_where_with_whom_and_how_long() -> None:
    assert summary_rows(ending(VIEW, RECORDS)) == [
        SummaryRow("fft-1", "left n-0", "", "0.5 s"),
        SummaryRow("fft-2", "runs on n-0", "fft-3", "1.0 s"),
        SummaryRow("pair-1", "runs on 2 GPUs of n-1", "alone", "0.2 s"),
        SummaryRow("lora-1", "waiting", "", "9.0 s so far"),
    ]


def test_whoever_waited_is_listed_with_the_reason_even_if_it_runs_now() -> None:
    rows = waits(ending(VIEW, RECORDS))

    assert [(row.workers, row.reason) for row in rows] == [(("fft-2",), FULL), (("lora-1",), BUSY)]


def test_the_conclusions_count_use_limit_and_the_hand_off_of_a_seat() -> None:
    seen = revisions(("x", ["fft-1", "fft-3"]), ("x", ["fft-3"]), ("x", ["fft-3", "fft-2"]))

    now, limit, handoff, _ = conclusions(ending(VIEW, RECORDS, seen), devices=4, limit=2)

    assert now == "Now: 2 running on 3 of 4 GPUs, 1 waiting."
    assert limit == "Limit: no ledger ever held more than 2 of 2 seats: 3 versions of 1 ledgers were seen."
    assert handoff == (
        "Hand-off: the seat of fft-1 was free 0 ms after its deletion, fft-2 had it 1000 ms later and ran "
        "500 ms after the deletion."
    )


def test_the_drain_tells_who_moved_and_who_waited() -> None:
    *_, drain = conclusions(ending(VIEW, RECORDS), devices=4, limit=1)

    assert drain == (
        "Drain: fft-2, fft-3 lost n-0; after 500 ms fft-3 ran elsewhere and fft-2 waited. "
        "Every GPU was at work 1000 ms after the node was opened again."
    )


def test_a_gpu_that_was_given_anew_is_not_called_a_seat() -> None:
    *_, handoff, _ = conclusions(ending(VIEW, RECORDS, revisions(("x", ["fft-1"]))), devices=4, limit=1)

    assert handoff == "Hand-off: the GPU of fft-1 went to fft-2, which ran 500 ms after the deletion."


def test_a_ledger_above_the_limit_breaks_a_promise() -> None:
    seen = revisions(("x", ["a", "b"]), ("x", ["a", "b", "c"]))

    assert broken_promises(VIEW, limit=2, revisions=seen) == ["x held 3 seats at a limit of 2"]
    assert broken_promises(VIEW, limit=3, revisions=seen) == []


def test_only_the_reason_of_a_worker_that_could_share_names_the_limit() -> None:
    right = ClusterView((worker("fft-1", State.WAITING, reason=FULL), WAITER), ())
    wrong = ClusterView(
        (worker("fft-1", State.WAITING, reason=BUSY), worker("lora-1", State.WAITING, reason=FULL)), ()
    )

    assert broken_promises(right, limit=2, revisions=()) == []
    assert [fault.split()[0] for fault in broken_promises(wrong, limit=2, revisions=())] == [
        "fft-1",
        "lora-1",
    ]
