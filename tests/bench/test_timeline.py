from __future__ import annotations

from bench.timeline import HandOff, SeatChange, Timeline, WorkerState, find_hand_off


def worker(name: str, phase: str = "Running", node: str = "node-1", *, refused: bool = False) -> WorkerState:
    return WorkerState(name, phase, node, refused)


def test_a_worker_runs_from_its_first_running_event() -> None:
    timeline = Timeline()
    timeline.see_worker("ADDED", worker("one", phase="", node=""), 1.0)
    timeline.see_worker("MODIFIED", worker("one"), 2.0)
    timeline.see_worker("MODIFIED", worker("one"), 3.0)

    assert timeline.running == {"one": "node-1"}
    assert timeline.running_since == {"one": 2.0}


def test_a_worker_that_moves_restarts_its_running_time() -> None:
    timeline = Timeline()
    timeline.see_worker("ADDED", worker("one"), 1.0)
    timeline.see_worker("MODIFIED", worker("one", phase="Placing"), 2.0)
    assert timeline.running == {}

    timeline.see_worker("MODIFIED", worker("one", node="node-2"), 3.0)

    assert timeline.running == {"one": "node-2"}
    assert timeline.running_since == {"one": 3.0}


def test_a_changed_node_shows_a_move_between_two_events() -> None:
    timeline = Timeline()
    timeline.see_worker("ADDED", worker("one"), 1.0)
    timeline.see_worker("MODIFIED", worker("one", node="node-2"), 2.0)

    assert timeline.running_since == {"one": 2.0}


def test_a_worker_is_refused_while_its_own_claim_is() -> None:
    timeline = Timeline()
    timeline.see_worker("ADDED", worker("one", phase="Pending", refused=True), 1.0)
    assert timeline.refused == {"one"}

    timeline.see_worker("MODIFIED", worker("one", phase="Placing"), 2.0)

    assert timeline.refused == set()


def test_a_deleted_worker_has_no_state() -> None:
    timeline = Timeline()
    timeline.see_worker("ADDED", worker("one"), 1.0)
    timeline.see_worker("ADDED", worker("two", phase="Pending", refused=True), 1.0)
    for name in ("one", "two"):
        timeline.see_worker("DELETED", worker(name, refused=True), 2.0)

    assert not timeline.present
    assert not timeline.running
    assert not timeline.refused


def test_ledger_events_update_workers_and_changes() -> None:
    timeline = Timeline()
    timeline.see_ledger("ADDED", "ledger", ["one"], 1.0)
    timeline.see_ledger("MODIFIED", "ledger", ["one", "two"], 2.0)
    timeline.see_ledger("MODIFIED", "ledger", ["two", "one"], 3.0)
    timeline.see_ledger("DELETED", "ledger", ["one", "two"], 4.0)

    assert timeline.booked_at == {"one": 1.0, "two": 2.0}
    assert timeline.most_seats == 2
    assert timeline.seats == {}
    assert timeline.changes == [
        SeatChange(1.0, "ledger", frozenset({"one"}), frozenset()),
        SeatChange(2.0, "ledger", frozenset({"two"}), frozenset()),
        SeatChange(4.0, "ledger", frozenset(), frozenset({"one", "two"})),
    ]


def test_full_ledgers_and_nodes_are_listed_by_name() -> None:
    timeline = Timeline()
    for ledger, workers in (("b", ["1", "2"]), ("a", ["3", "4"]), ("c", ["5"])):
        timeline.see_ledger("ADDED", ledger, workers, 1.0)
    for name, node in (("2", "y"), ("1", "y"), ("3", "x")):
        timeline.see_worker("ADDED", worker(name, node=node), 1.0)

    assert timeline.ledgers_with(2) == ["a", "b"]
    assert list(timeline.by_node().items()) == [("x", ["3"]), ("y", ["1", "2"])]


def change(seconds: float, ledger: str = "ledger", *, gained: str = "", lost: str = "") -> SeatChange:
    return SeatChange(seconds, ledger, frozenset(gained.split()), frozenset(lost.split()))


def test_a_hand_off_is_the_first_gain_after_the_predecessors_seat_is_freed() -> None:
    changes = [
        change(1.0, gained="early"),
        change(2.0, "other", gained="elsewhere"),
        change(3.0, lost="old"),
        change(3.5, "other", gained="elsewhere-too"),
        change(4.0, gained="new"),
        change(5.0, gained="late"),
    ]

    assert find_hand_off(changes, "ledger", "old") == HandOff(3.0, 4.0, "new")


def test_a_hand_off_in_one_write_has_equal_times() -> None:
    assert find_hand_off([change(3.0, lost="old", gained="new")], "ledger", "old") == HandOff(3.0, 3.0, "new")


def test_there_is_no_hand_off_before_the_seat_is_booked() -> None:
    assert find_hand_off([change(1.0, gained="early"), change(2.0, lost="old")], "ledger", "old") is None
    assert find_hand_off([change(1.0, lost="someone", gained="new")], "ledger", "old") is None
