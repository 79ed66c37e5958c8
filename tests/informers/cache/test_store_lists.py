"""Lists in the store: each is applied completely or not at all. Test names contain checklist IDs."""

import weakref

import pytest

from tests.informers.recorder import StoreRecorder, index_values, key, keys, replace
from tests.informers.scripted_api import (
    added,
    bad_thing,
    deleted,
    modified,
    thing,
)


def test_l10_another_uid_is_a_deletion_and_an_addition(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, "red", uid="first"))
    recorder.store.apply_event(modified(thing("a", 3, "blue", uid="second")))
    recorder.list(5, thing("a", 4, uid="third"))
    assert recorder.take() == ["+a@1", "synced", "-a@1", "+a@3", "-a@3", "+a@4"]


def test_an_object_may_leave_and_reenter_the_selection(recorder: StoreRecorder) -> None:
    recorder.store.apply_event(added(thing("a", 1)))
    recorder.store.apply_event(deleted(thing("a", 2)))
    recorder.store.apply_event(added(thing("a", 3)))
    assert recorder.take() == ["+a@1", "-a@2", "+a@3"]


def test_l7_keys_absent_after_a_list_are_deleted_with_their_last_state(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1), thing("b", 1, "red"))
    recorder.store.apply_event(modified(thing("b", 2, "blue")))
    recorder.take()
    recorder.list(9, thing("a", 1))
    assert recorder.take() == ["-b@2"]
    assert index_values(recorder.store, "colour") == ()


def test_l9_the_same_version_in_a_list_reports_nothing_and_keeps_the_object(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, "red"))
    held = recorder.store.get(key("a"))
    recorder.take()
    recorder.list(9, thing("a", 1, "red"))
    assert recorder.take() == []
    assert recorder.store.get(key("a")) is held
    assert recorder.store.by_index("colour", "red")[0] is held


def test_s8_only_the_first_list_precedes_synced(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.list(2, thing("a", 1), thing("b", 2))
    assert recorder.take() == ["+a@1", "synced", "+b@2"]


def test_l11_an_empty_list_syncs_the_store(recorder: StoreRecorder) -> None:
    recorder.list(1)
    assert recorder.store.synced
    assert recorder.take() == ["synced"]


def test_l6_a_list_is_invisible_until_complete(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, "red"))
    pending = recorder.store.begin_list()
    pending.add(thing("b", 2, "blue"))
    assert keys(recorder.store) == (key("a"),)
    assert index_values(recorder.store, "colour") == ("red",)
    replace(recorder.store, pending, "2")
    assert keys(recorder.store) == (key("b"),)
    assert index_values(recorder.store, "colour") == ("blue",)


def test_l12_after_a_restore_an_older_list_is_applied(recorder: StoreRecorder) -> None:
    recorder.list(100, thing("a", 90, "new"), thing("b", 50), thing("c", 95), thing("d", 60))
    recorder.store.apply_delete(thing("d", 60))
    recorder.take()
    recorder.list(80, thing("a", 70, "old"), thing("b", 50), thing("d", 60), restored=True)
    assert recorder.take() == ["-c@95", "~a@70", "+d@60"]
    assert recorder.store.resource_version == "80"
    recorder.store.apply_event(modified(thing("a", 81)))
    recorder.store.apply_event(modified(thing("d", 82)))
    assert recorder.take() == ["~a@81", "~d@82"]


def test_w12_an_unreadable_list_item_keeps_its_previous_state(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, "red"), thing("b", 1))
    recorder.take()
    pending = recorder.store.begin_list()
    pending.add_unreadable(bad_thing("a", 5))
    pending.add_unreadable(bad_thing("new", 6))
    pending.add_unreadable(bad_thing("b", 7, uid="another"))
    replace(recorder.store, pending, "9")
    assert recorder.take() == ["-b@1"]
    assert recorder.store.by_index("colour", "red") == (thing("a", 1, "red"),)
    assert sorted(recorder.store.unreadable) == [key("a"), key("b"), key("new")]
    recorder.list(10, thing("a", 5))
    assert recorder.take() == ["~a@5"]
    assert recorder.store.unreadable == {}


def test_a_list_is_reported_in_slices_after_it_is_shown_completely() -> None:
    recorder = StoreRecorder(slice_objects=2)
    slices = recorder.list_in_slices(1, *(thing(f"thing-{number}", 1) for number in range(6)))
    seen = []
    for _ in slices:
        seen.append(len(recorder.take()))
        assert len(recorder.store) == 6
    assert seen == [2, 2, 2]
    assert recorder.take() == ["synced"]


def test_unchanged_objects_of_a_list_need_no_reporting_slice() -> None:
    recorder = StoreRecorder(slice_objects=1)
    things = [thing(f"thing-{number}", 1) for number in range(9)]
    recorder.list(1, *things)
    recorder.take()
    changed = [*things[:8], thing("thing-8", 2)]
    shown_after = [recorder.store.get(key("thing-8")) for _ in recorder.list_in_slices(2, *changed)]
    assert recorder.take() == ["~thing-8@2"]
    assert shown_after.count(thing("thing-8", 2)) == 1


def test_a_write_between_slices_is_reported_at_once_after_the_change_of_the_list() -> None:
    recorder = StoreRecorder(slice_objects=1)
    slices = recorder.list_in_slices(1, thing("a", 1), thing("b", 1), thing("c", 1))
    next(slices)
    assert recorder.take() == ["+a@1"]
    recorder.store.apply_write(thing("c", 2))
    assert recorder.take() == ["+c@1", "~c@2"]
    assert recorder.store.statistics().unreported == 1
    for _ in slices:
        pass
    assert recorder.take() == ["+b@1", "synced"]
    assert recorder.store.statistics().unreported == 0


def test_a_watch_event_between_slices_is_reported_after_the_change_of_the_list() -> None:
    recorder = StoreRecorder(slice_objects=1)
    recorder.list(1, thing("a", 1), thing("b", 1))
    slices = recorder.list_in_slices(3, thing("a", 2), thing("b", 3))
    while recorder.store.resource_version != "3":
        next(slices)
    recorder.take()
    recorder.store.apply_event(deleted(thing("b", 4)))
    assert recorder.take() == ["~b@3", "-b@4"]
    for _ in slices:
        pass
    assert recorder.take() == []


def test_l6_a_write_during_the_search_for_deletions_is_neither_lost_nor_undone() -> None:
    recorder = StoreRecorder(slice_objects=1)
    recorder.list(1, thing("a", 1), thing("b", 1), thing("c", 1))
    recorder.take()
    slices = recorder.list_in_slices(4)
    next(slices)
    recorder.store.apply_write(thing("a", 5))
    recorder.store.apply_write(thing("b", 2))
    assert recorder.store.resource_version == "1", "the old list is still shown"
    for _ in slices:
        pass
    assert [str(found) for found in recorder.store] == ["a@5"]
    assert sorted(recorder.take()) == ["-b@2", "-c@1", "~a@5", "~b@2"]


def test_l6_an_object_kept_as_newer_than_the_list_can_still_be_deleted() -> None:
    recorder = StoreRecorder(slice_objects=1)
    recorder.list(1, thing("a", 1), thing("b", 1))
    recorder.store.apply_write(thing("a", 5))
    recorder.take()
    slices = recorder.list_in_slices(2, thing("b", 1))
    next(slices)  # "a" is newer than the list and is kept
    recorder.store.apply_event(deleted(thing("a", 6)))
    for _ in slices:
        pass
    assert recorder.take() == ["-a@6"]
    assert key("a") not in recorder.store


def test_l6_a_deletion_between_slices_is_not_undone_by_an_older_list() -> None:
    recorder = StoreRecorder(slice_objects=1)
    recorder.list(1, thing("a", 1), thing("b", 1))
    slices = recorder.list_in_slices(2, thing("a", 1), thing("b", 1))
    next(slices)
    recorder.store.apply_delete(thing("a", 1))
    for _ in slices:
        pass
    assert recorder.take() == ["+a@1", "+b@1", "synced", "-a@1"]
    assert keys(recorder.store) == (key("b"),)


def test_l6_an_abandoned_list_leaves_the_store_unchanged_and_is_freed() -> None:
    recorder = StoreRecorder(slice_objects=1)
    recorder.list(1, thing("a", 1), thing("b", 1))
    recorder.take()
    pending = recorder.store.begin_list()
    pending.add(thing("a", 2))
    slices = recorder.store.replace_in_slices(pending, "2")
    next(slices)
    abandoned = weakref.ref(pending)
    del pending, slices
    assert abandoned() is None
    recorder.store.apply_write(thing("b", 3))
    assert [str(found) for found in recorder.store] == ["a@1", "b@3"]
    assert recorder.take() == ["~b@3"]


def test_a_list_is_void_once_it_was_applied_or_another_was_begun(recorder: StoreRecorder) -> None:
    first = recorder.store.begin_list()
    second = recorder.store.begin_list()
    with pytest.raises(RuntimeError, match="applied already, or another one was begun"):
        replace(recorder.store, first, "1")
    replace(recorder.store, second, "1")
    with pytest.raises(RuntimeError, match="applied already"):
        replace(recorder.store, second, "1")


def test_pending_changes_of_a_list_are_reported_before_the_next_list_is_applied() -> None:
    recorder = StoreRecorder(slice_objects=1)
    slices = recorder.list_in_slices(1, thing("a", 1), thing("b", 1))
    next(slices)
    del slices  # its reflector was stopped
    recorder.list(2, thing("a", 1), thing("b", 2))
    assert recorder.take() == ["+a@1", "+b@1", "~b@2", "synced"]


def test_the_repr_of_a_pending_list_is_one_line(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    pending = recorder.store.begin_list()
    pending.add(thing("a", 2))
    pending.add_unreadable(bad_thing("b", 2))
    assert repr(pending) == "<PendingList items=2 changed=1 deleted=0 unresolved=1 unreadable=1>"
