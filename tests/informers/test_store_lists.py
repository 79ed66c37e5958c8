"""The store and lists: whole or not at all, in one step or in slices. Ids are those of the checklist."""

from tests.informers.scripted_api import (
    added,
    bad_thing,
    deleted,
    modified,
    thing,
)
from tests.informers.told import Told, key


def test_l10_another_uid_is_a_delete_and_an_add(told: Told) -> None:
    told.list(1, thing("a", 1, "red", uid="first"))
    told.store.apply_event(modified(thing("a", 3, "blue", uid="second")))
    told.list(5, thing("a", 4, uid="third"))
    assert told.take() == ["*a@1", "synced", "-a@1", "+a@3", "-a@3", "+a@4"]


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


def test_s8_only_the_first_list_is_flagged_initial_and_closed_once(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.list(2, thing("a", 1), thing("b", 2))
    assert told.take() == ["*a@1", "synced", "+b@2"]


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
