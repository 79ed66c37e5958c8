"""The store and lists: whole or not at all, in one step or in slices. Ids are those of the checklist."""

import weakref

import pytest

from tests.informers.recorder import Told, key
from tests.informers.scripted_api import (
    added,
    bad_thing,
    deleted,
    modified,
    thing,
)


def test_l10_another_uid_is_a_delete_and_an_add(told: Told) -> None:
    told.list(1, thing("a", 1, "red", uid="first"))
    told.store.apply_event(modified(thing("a", 3, "blue", uid="second")))
    told.list(5, thing("a", 4, uid="third"))
    assert told.take() == ["+a@1", "synced", "-a@1", "+a@3", "-a@3", "+a@4"]


def test_a_selector_may_let_an_object_go_and_come_back(told: Told) -> None:
    told.store.apply_event(added(thing("a", 1)))
    told.store.apply_event(deleted(thing("a", 2)))
    told.store.apply_event(added(thing("a", 3)))
    assert told.take() == ["+a@1", "-a@2", "+a@3"]


def test_l7_keys_absent_after_a_list_are_deleted_with_their_last_state(told: Told) -> None:
    told.list(1, thing("a", 1), thing("b", 1, "red"))
    told.store.apply_event(modified(thing("b", 2, "blue")))
    told.take()
    told.list(9, thing("a", 1))
    assert told.take() == ["-b@2"]
    assert told.store.index_values("colour") == ()


def test_l9_the_same_version_in_a_list_tells_nothing_and_keeps_the_object(told: Told) -> None:
    told.list(1, thing("a", 1, "red"))
    held = told.store.get(key("a"))
    told.take()
    told.list(9, thing("a", 1, "red"))
    assert told.take() == []
    assert told.store.get(key("a")) is held
    assert told.store.by_index("colour", "red")[0] is held


def test_s8_only_the_first_list_precedes_synced(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.list(2, thing("a", 1), thing("b", 2))
    assert told.take() == ["+a@1", "synced", "+b@2"]


def test_l11_an_empty_list_is_a_list(told: Told) -> None:
    told.list(1)
    assert told.store.synced
    assert told.take() == ["synced"]


def test_l6_a_list_is_not_seen_before_it_is_whole(told: Told) -> None:
    told.list(1, thing("a", 1, "red"))
    listed = told.store.begin_replacement()
    listed.add(thing("b", 2, "blue"))
    assert told.store.keys() == (key("a"),)
    assert told.store.index_values("colour") == ("red",)
    told.store.replace(listed, "2")
    assert told.store.keys() == (key("b"),)
    assert told.store.index_values("colour") == ("blue",)


def test_l12_after_a_restore_the_list_is_right_although_it_is_older(told: Told) -> None:
    told.list(100, thing("a", 90, "new"), thing("b", 50), thing("c", 95), thing("d", 60))
    told.store.apply_delete(thing("d", 60))
    told.take()
    told.list(80, thing("a", 70, "old"), thing("b", 50), thing("d", 60), restored=True)
    assert told.take() == ["-c@95", "~a@70", "+d@60"]
    assert told.store.resource_version == "80"
    told.store.apply_event(modified(thing("a", 81)))
    told.store.apply_event(modified(thing("d", 82)))
    assert told.take() == ["~a@81", "~d@82"]


def test_w12_an_unreadable_item_of_a_list_keeps_its_previous_state(told: Told) -> None:
    told.list(1, thing("a", 1, "red"), thing("b", 1))
    told.take()
    listed = told.store.begin_replacement()
    listed.add_unreadable(bad_thing("a", 5))
    listed.add_unreadable(bad_thing("new", 6))
    listed.add_unreadable(bad_thing("b", 7, uid="another"))
    told.store.replace(listed, "9")
    assert told.take() == ["-b@1"]
    assert told.store.by_index("colour", "red") == (thing("a", 1, "red"),)
    assert sorted(told.store.unreadable) == [key("a"), key("b"), key("new")]
    told.list(10, thing("a", 5))
    assert told.take() == ["~a@5"]
    assert told.store.unreadable == {}


def test_a_list_is_told_in_slices_and_shown_whole_before_that() -> None:
    told = Told(slice_objects=2)
    slices = told.list_in_slices(1, *(thing(f"thing-{number}", 1) for number in range(6)))
    seen = []
    for _ in slices:
        seen.append(len(told.take()))
        assert len(told.store) == 6
    assert seen == [2, 2, 2]
    assert told.take() == ["synced"]


def test_what_a_list_leaves_unchanged_costs_no_slice_of_the_telling() -> None:
    told = Told(slice_objects=1)
    things = [thing(f"thing-{number}", 1) for number in range(9)]
    told.list(1, *things)
    told.take()
    changed = [*things[:8], thing("thing-8", 2)]
    shown_after = [told.store.get(key("thing-8")) for _ in told.list_in_slices(2, *changed)]
    assert told.take() == ["~thing-8@2"]
    assert shown_after.count(thing("thing-8", 2)) == 1


def test_a_write_between_the_slices_is_told_at_once_and_after_what_the_list_said_of_it() -> None:
    told = Told(slice_objects=1)
    slices = told.list_in_slices(1, thing("a", 1), thing("b", 1), thing("c", 1))
    next(slices)
    assert told.take() == ["+a@1"]
    told.store.apply_write(thing("c", 2))
    assert told.take() == ["+c@1", "~c@2"]
    assert told.store.statistics().untold == 1
    for _ in slices:
        pass
    assert told.take() == ["+b@1", "synced"]
    assert told.store.statistics().untold == 0


def test_a_watch_event_between_the_slices_is_told_after_what_the_list_said_of_it() -> None:
    told = Told(slice_objects=1)
    told.list(1, thing("a", 1), thing("b", 1))
    slices = told.list_in_slices(3, thing("a", 2), thing("b", 3))
    while told.store.resource_version != "3":
        next(slices)
    told.take()
    told.store.apply_event(deleted(thing("b", 4)))
    assert told.take() == ["~b@3", "-b@4"]
    for _ in slices:
        pass
    assert told.take() == []


def test_l6_a_write_while_the_list_looks_for_what_is_gone_is_neither_lost_nor_undone() -> None:
    told = Told(slice_objects=1)
    told.list(1, thing("a", 1), thing("b", 1), thing("c", 1))
    told.take()
    slices = told.list_in_slices(4)
    next(slices)
    told.store.apply_write(thing("a", 5))
    told.store.apply_write(thing("b", 2))
    assert told.store.resource_version == "1", "still the old list"
    for _ in slices:
        pass
    assert [str(found) for found in told.store] == ["a@5"]
    assert sorted(told.take()) == ["-b@2", "-c@1", "~a@5", "~b@2"]


def test_l6_what_was_kept_as_newer_than_the_list_and_then_deleted_is_gone() -> None:
    told = Told(slice_objects=1)
    told.list(1, thing("a", 1), thing("b", 1))
    told.store.apply_write(thing("a", 5))
    told.take()
    slices = told.list_in_slices(2, thing("b", 1))
    next(slices)  # "a" is newer than the list, and is kept
    told.store.apply_event(deleted(thing("a", 6)))
    for _ in slices:
        pass
    assert told.take() == ["-a@6"]
    assert key("a") not in told.store


def test_l6_a_deletion_between_the_slices_keeps_an_older_list_from_bringing_the_object_back() -> None:
    told = Told(slice_objects=1)
    told.list(1, thing("a", 1), thing("b", 1))
    slices = told.list_in_slices(2, thing("a", 1), thing("b", 1))
    next(slices)
    told.store.apply_delete(thing("a", 1))
    for _ in slices:
        pass
    assert told.take() == ["+a@1", "+b@1", "synced", "-a@1"]
    assert told.store.keys() == (key("b"),)


def test_l6_a_list_that_is_given_up_leaves_the_store_as_it_was_and_is_freed() -> None:
    told = Told(slice_objects=1)
    told.list(1, thing("a", 1), thing("b", 1))
    told.take()
    listed = told.store.begin_replacement()
    listed.add(thing("a", 2))
    slices = told.store.replacing(listed, "2")
    next(slices)
    left = weakref.ref(listed)
    del listed, slices
    assert left() is None
    told.store.apply_write(thing("b", 3))
    assert [str(found) for found in told.store] == ["a@1", "b@3"]
    assert told.take() == ["~b@3"]


def test_a_list_is_void_once_another_one_was_begun_or_it_was_taken_in(told: Told) -> None:
    first = told.store.begin_replacement()
    second = told.store.begin_replacement()
    with pytest.raises(RuntimeError, match="taken in already, or another one was begun"):
        told.store.replace(first, "1")
    told.store.replace(second, "1")
    with pytest.raises(RuntimeError, match="taken in already"):
        told.store.replace(second, "1")


def test_what_one_list_has_still_to_tell_is_told_before_the_next_is_taken_in() -> None:
    told = Told(slice_objects=1)
    slices = told.list_in_slices(1, thing("a", 1), thing("b", 1))
    next(slices)
    del slices  # its reader was stopped
    told.list(2, thing("a", 1), thing("b", 2))
    assert told.take() == ["+a@1", "+b@1", "~b@2", "synced"]


def test_the_repr_of_a_list_on_its_way_is_one_line(told: Told) -> None:
    told.list(1, thing("a", 1))
    listed = told.store.begin_replacement()
    listed.add(thing("a", 2))
    listed.add_unreadable(bad_thing("b", 2))
    assert repr(listed) == "<Replacement items=2 changed=1 gone=0 doubtful=1 unreadable=1>"
