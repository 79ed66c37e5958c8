"""The store and our own writes: visible at once, never undone. Test names contain checklist IDs."""

import pytest

from informers.cache import tombstones
from informers.cache.changes import Change, Transition
from informers.cache.store import Store
from tests.informers.recorder import StoreRecorder, describe_change, key, keys, replace
from tests.informers.scripted_api import (
    Thing,
    added,
    bookmark,
    deleted,
    modified,
    thing,
)


def test_r6_a_write_is_visible_at_once_and_reported_exactly_once(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.take()
    recorder.store.apply_write(thing("a", 5, "red"))
    assert recorder.store.by_index("colour", "red") == (thing("a", 5, "red"),)
    recorder.store.apply_event(modified(thing("a", 4)))
    recorder.store.apply_event(modified(thing("a", 5, "red")))
    assert recorder.take() == ["~a@5"]


def test_r6_a_write_does_not_move_the_version_of_the_next_watch(recorder: StoreRecorder) -> None:
    recorder.list(1)
    recorder.store.apply_write(thing("a", 5))
    assert recorder.store.resource_version == "1"


def test_r6_an_older_list_does_not_undo_a_write(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.store.apply_write(thing("a", 5))
    recorder.store.apply_write(thing("b", 6))
    recorder.take()
    recorder.list(4, thing("a", 3))
    assert recorder.take() == []
    assert [str(found) for found in recorder.store] == ["a@5", "b@6"]


def test_r6_a_write_while_a_list_is_prepared_survives(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    pending = recorder.store.begin_list()
    pending.add(thing("a", 1))
    recorder.store.apply_write(thing("a", 3))
    recorder.store.apply_write(thing("b", 4))
    recorder.take()
    replace(recorder.store, pending, "2")
    assert recorder.take() == []
    assert recorder.store.get(key("a")) == thing("a", 3)
    assert recorder.store.get(key("b")) == thing("b", 4)


def test_r6_a_deleted_object_stays_hidden_until_the_watch_confirms(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, "red"))
    recorder.take()
    recorder.store.apply_delete(thing("a", 1))
    assert recorder.take() == ["-a@1"]
    assert recorder.store.by_index("colour", "red") == ()
    recorder.store.apply_event(modified(thing("a", 2)))  # another client's write, before our delete
    recorder.store.apply_write(thing("a", 2))  # a late response to a write
    assert recorder.store.get(key("a")) is None
    recorder.store.apply_event(deleted(thing("a", 3)))
    recorder.store.apply_event(added(thing("a", 4, uid="another")))
    assert recorder.take() == ["+a@4"]
    assert recorder.store.statistics().tombstones == 0


def test_r6_a_list_older_than_the_delete_does_not_restore_the_object(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.store.apply_delete(thing("a", 1))
    recorder.take()
    recorder.list(2, thing("a", 2))
    assert recorder.take() == []
    assert keys(recorder.store) == ()
    assert recorder.store.statistics().tombstones == 1
    recorder.list(4)
    assert recorder.store.statistics().tombstones == 0


def test_r6_an_object_that_survives_its_delete_returns_with_a_newer_event(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.store.apply_delete(thing("a", 1), answer=thing("a", 5))
    recorder.take()
    recorder.store.apply_event(modified(thing("a", 5)))
    assert recorder.take() == []
    recorder.store.apply_event(modified(thing("a", 6)))
    assert recorder.take() == ["+a@6"]


def test_r6_a_late_create_response_for_a_deleted_object_is_ignored(recorder: StoreRecorder) -> None:
    recorder.list(10)
    recorder.take()
    recorder.store.apply_write(thing("a", 7))
    assert recorder.take() == []


def test_r6_an_object_that_was_never_cached_can_be_deleted(recorder: StoreRecorder) -> None:
    recorder.list(1)
    recorder.take()
    recorder.store.apply_delete(thing("a", 5))
    recorder.store.apply_event(added(thing("a", 5)))
    recorder.store.apply_event(deleted(thing("a", 6)))
    assert recorder.take() == []
    assert recorder.store.statistics().tombstones == 0


def test_r6_deleting_an_old_object_keeps_a_new_one_of_its_name(recorder: StoreRecorder) -> None:
    recorder.list(1)
    recorder.store.apply_write(thing("a", 5, uid="new"))
    recorder.take()
    recorder.store.apply_delete(thing("a", 2, uid="old"))
    assert recorder.take() == []
    assert recorder.store.get(key("a")) == thing("a", 5, uid="new")


def test_r6_a_late_response_about_an_old_object_does_not_undo_the_delete_of_a_new_one(
    recorder: StoreRecorder,
) -> None:
    recorder.list(1)
    recorder.take()
    recorder.store.apply_delete(thing("a", 5, uid="new"))
    recorder.store.apply_delete(thing("a", 3, uid="old"))
    recorder.store.apply_event(added(thing("a", 3, uid="old")))
    recorder.store.apply_event(added(thing("a", 5, uid="new")))
    assert recorder.take() == []


def test_a_delete_event_before_the_response_leaves_no_tombstone(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.store.apply_event(deleted(thing("a", 2)))
    recorder.store.apply_delete(thing("a", 1))
    assert recorder.store.statistics().tombstones == 0


def test_tombstones_are_bounded(recorder: StoreRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "TOMBSTONES_MAX", 10)
    recorder.list(1)
    for number in range(20):
        recorder.store.apply_delete(thing(f"thing-{number}", 2))
    assert recorder.store.statistics().tombstones == 10


def test_a_bookmark_drops_older_tombstones(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.store.apply_delete(thing("a", 1), answer=thing("a", 5))
    recorder.store.apply_event(bookmark(4))
    assert recorder.store.statistics().tombstones == 1
    recorder.store.apply_event(bookmark(5))
    assert recorder.store.statistics().tombstones == 0


def test_a_subscriber_that_writes_does_not_reorder_changes_for_others() -> None:
    store: Store[Thing] = Store()
    reported: list[str] = []

    def writes(change: Change[Thing]) -> None:
        if isinstance(change, Transition) and change.old is None:
            store.apply_write(thing("a", 2))

    store.subscribe(writes)
    store.subscribe(lambda change: reported.append(describe_change(change)))
    store.apply_event(added(thing("a", 1)))
    assert reported == ["+a@1", "~a@2"]


def test_l10_events_of_a_replaced_object_are_outdated(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, uid="first"))
    recorder.store.apply_write(thing("a", 5, uid="second"))
    recorder.take()
    recorder.store.apply_event(modified(thing("a", 2, uid="first")))
    assert recorder.take() == []
    recorder.store.apply_delete(thing("a", 5, uid="second"))
    recorder.store.apply_event(modified(thing("a", 3, uid="first")))
    recorder.store.apply_event(deleted(thing("a", 4, uid="first")))
    assert recorder.take() == ["-a@5"]


def only_red(recorder: StoreRecorder) -> None:
    """Make list and watch select red things only."""
    recorder.store = Store(
        {"colour": lambda found: found.colours}, selects=lambda found: "red" in found.colours
    )
    recorder.store.subscribe(recorder.record)


def test_r6_a_response_outside_the_selection_is_not_stored(recorder: StoreRecorder) -> None:
    """Its label was removed before, so the watch reports nothing about it, not even its deletion."""
    only_red(recorder)
    recorder.list(1)
    recorder.take()
    recorder.store.apply_write(thing("a", 5, "blue"))
    assert recorder.take() == []
    assert keys(recorder.store) == ()
    recorder.store.apply_event(bookmark(6))
    assert recorder.store.statistics().tombstones == 0


def test_r6_a_response_that_left_the_selection_hides_the_object_until_a_newer_event(
    recorder: StoreRecorder,
) -> None:
    only_red(recorder)
    recorder.list(1, thing("a", 1, "red"))
    recorder.take()
    recorder.store.apply_write(thing("a", 5, "blue"))
    assert recorder.take() == ["-a@5"]
    recorder.store.apply_event(modified(thing("a", 4, "red")))
    recorder.store.apply_event(deleted(thing("a", 5, "blue")))
    assert recorder.take() == []
    recorder.store.apply_event(added(thing("a", 7, "red")))
    assert recorder.take() == ["+a@7"]
