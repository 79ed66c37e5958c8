"""The store by itself: newest wins, own writes, indexes, whole lists. Ids are those of the checklist."""

import dataclasses
import gc
import weakref

import pytest

from informers import tombstones
from informers.changes import Added, Change, Deleted, Synced, Updated
from informers.store import ObjectKey, Store
from tests.informers.scripted_api import (
    Recorder,
    Thing,
    added,
    bad_thing,
    bookmark,
    deleted,
    modified,
    thing,
)


def key(name: str) -> ObjectKey:
    return ObjectKey("space", name)


class Told:
    """A store by colour and what it told, as `Recorder` writes it."""

    def __init__(self) -> None:
        self.store: Store[Thing] = Store({"colour": lambda found: found.colours})
        self.recorder = Recorder()
        self.store.subscribe(self.hear)

    def hear(self, change: Change[Thing]) -> None:
        match change:
            case Added():
                self.recorder.on_add(change.obj, change.initial)
            case Updated():
                self.recorder.on_update(change.old, change.new)
            case Deleted():
                self.recorder.on_delete(change.obj)
            case Synced():
                self.recorder.told.append("synced")

    def take(self) -> list[str]:
        """What was told since last asked."""
        told, self.recorder.told = self.recorder.told, []
        return told

    def list(self, version: int, *things: Thing, restored: bool = False) -> None:
        listed = self.store.begin_replacement()
        for found in things:
            listed.add(found)
        self.store.replace(listed, str(version), restored=restored)


@pytest.fixture
def told() -> Told:
    return Told()


def test_s1_readers_get_values_that_they_cannot_change(told: Told) -> None:
    told.list(1, thing("a", 1, "red"))
    assert isinstance(told.store.by_index("colour", "red"), tuple)
    assert isinstance(told.store.keys(), tuple)
    with pytest.raises(dataclasses.FrozenInstanceError):
        told.store.by_index("colour", "red")[0].colours = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        told.store.unreadable[key("a")] = bad_thing("a", 2)  # type: ignore[index]


def test_s2_cache_and_indexes_change_before_the_notification(told: Told) -> None:
    seen: list[tuple[Thing | None, tuple[Thing, ...], tuple[Thing, ...]]] = []

    def look(_: Change[Thing]) -> None:
        store = told.store
        seen.append((store.get(key("a")), store.by_index("colour", "red"), store.by_index("colour", "blue")))

    told.store.subscribe(look)
    red, blue = thing("a", 1, "red"), thing("a", 2, "blue")
    told.store.apply_event(added(red))
    told.store.apply_event(modified(blue))
    told.store.apply_event(deleted(thing("a", 3, "blue")))
    assert seen == [(red, (red,), ()), (blue, (), (blue,)), (None, (), ())]


def test_s3_index_follows_a_changed_value_and_empty_buckets_vanish(told: Told) -> None:
    told.store.apply_event(added(thing("a", 1, "red", "blue")))
    told.store.apply_event(added(thing("b", 2, "blue")))
    assert told.store.index_values("colour") == ("blue", "red")
    told.store.apply_event(modified(thing("a", 3, "green")))
    assert told.store.index_values("colour") == ("blue", "green")
    assert told.store.by_index("colour", "red") == ()
    told.store.apply_event(deleted(thing("b", 4, "blue")))
    assert told.store.index_values("colour") == ("green",)
    assert told.store.statistics().buckets == {"colour": 1}


def test_a_bucket_is_read_in_the_order_of_keys(told: Told) -> None:
    for version, name in enumerate("cab", 1):
        told.store.apply_event(added(thing(name, version, "red")))
    assert [found.metadata.name for found in told.store.by_index("colour", "red")] == ["a", "b", "c"]
    assert told.store.keys() == (key("a"), key("b"), key("c"))


def test_an_unknown_index_is_an_error_not_an_empty_answer(told: Told) -> None:
    with pytest.raises(KeyError, match="color"):
        told.store.by_index("color", "red")


def test_an_index_function_that_raises_leaves_the_store_as_it_was() -> None:
    def colour_of(found: Thing) -> list[str]:
        return [found.colours[0]]

    store: Store[Thing] = Store({"first": lambda found: [found.metadata.name], "colour": colour_of})
    with pytest.raises(IndexError):
        store.apply_write(thing("a", 1))
    assert store.keys() == ()
    assert store.index_values("first") == ()


def test_s13_delete_tells_the_last_state_with_the_version_of_the_deletion(told: Told) -> None:
    told.store.apply_event(added(thing("a", 1)))
    told.store.apply_event(deleted(thing("a", 5)))
    assert told.take() == ["+a@1", "-a@5"]


def test_s14_nothing_holds_a_deleted_object(told: Told) -> None:
    told.recorder.told = []
    found = thing("a", 1, "red")
    told.store.apply_event(added(found))
    told.store.apply_event(added(thing("b", 2, "red")))
    assert len(told.store.by_index("colour", "red")) == 2  # the sorted view is remembered
    gone = weakref.ref(found)
    told.store.apply_event(deleted(thing("a", 3, "red")))
    del found
    gc.collect()
    assert gone() is None


# Newest wins.


def test_w20_replayed_events_change_and_tell_nothing(told: Told) -> None:
    told.list(10, thing("a", 10, "red"))
    told.take()
    for version in range(1, 11):
        told.store.apply_event(modified(thing("a", version, "blue")))
    told.store.apply_event(deleted(thing("a", 9)))
    assert told.take() == []
    assert told.store.by_index("colour", "red") == (thing("a", 10, "red"),)
    assert told.store.resource_version == "10"
    assert told.store.statistics().stale_total == 11


def test_w20_versions_are_compared_as_numbers(told: Told) -> None:
    told.store.apply_event(added(thing("a", 9)))
    told.store.apply_event(modified(thing("a", 10)))
    assert told.take() == ["+a@9", "~a@10"]


def test_w20_a_replay_does_not_bring_back_what_the_watch_showed_deleted(told: Told) -> None:
    told.store.apply_event(added(thing("a", 1)))
    told.store.apply_event(deleted(thing("a", 3)))
    told.take()
    told.store.apply_event(modified(thing("a", 2)))
    assert told.take() == []


def test_w10_a_bookmark_moves_the_version_only(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.take()
    told.store.apply_event(bookmark(100))
    assert told.take() == []
    assert told.store.resource_version == "100"


def test_a_version_that_is_no_number_fails_loudly(told: Told) -> None:
    odd = Thing(dataclasses.replace(thing("a", 1).metadata, resource_version="v1"))
    with pytest.raises(ValueError, match="v1"):
        told.store.apply_write(odd)


# Our own writes.


def test_r6_a_write_is_read_at_once_and_told_exactly_once(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.take()
    told.store.apply_write(thing("a", 5, "red"))
    assert told.store.by_index("colour", "red") == (thing("a", 5, "red"),)
    told.store.apply_event(modified(thing("a", 4)))
    told.store.apply_event(modified(thing("a", 5, "red")))
    assert told.take() == ["~a@5"]


def test_r6_a_write_does_not_move_the_version_that_the_watch_goes_on_from(told: Told) -> None:
    told.list(1)
    told.store.apply_write(thing("a", 5))
    assert told.store.resource_version == "1"


def test_r6_an_older_list_does_not_undo_a_write(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.store.apply_write(thing("a", 5))
    told.store.apply_write(thing("b", 6))
    told.take()
    told.list(4, thing("a", 3))
    assert told.take() == []
    assert [str(found) for found in told.store] == ["a@5", "b@6"]


def test_r6_a_write_that_arrives_while_a_list_is_taken_in_survives(told: Told) -> None:
    told.list(1, thing("a", 1))
    listed = told.store.begin_replacement()
    listed.add(thing("a", 1))
    told.store.apply_write(thing("a", 3))
    told.store.apply_write(thing("b", 4))
    told.take()
    told.store.replace(listed, "2")
    assert told.take() == []
    assert told.store.get(key("a")) == thing("a", 3)
    assert told.store.get(key("b")) == thing("b", 4)


def test_r6_a_deleted_object_stays_hidden_until_the_watch_confirms(told: Told) -> None:
    told.list(1, thing("a", 1, "red"))
    told.take()
    told.store.apply_delete(thing("a", 1))
    assert told.take() == ["-a@1"]
    assert told.store.by_index("colour", "red") == ()
    told.store.apply_event(modified(thing("a", 2)))  # somebody's, before our delete
    told.store.apply_write(thing("a", 2))  # the late answer of a write
    assert told.store.get(key("a")) is None
    told.store.apply_event(deleted(thing("a", 3)))
    told.store.apply_event(added(thing("a", 4, uid="another")))
    assert told.take() == ["+a@4"]
    assert told.store.statistics().tombstones == 0


def test_r6_a_list_from_before_the_delete_does_not_bring_the_object_back(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.store.apply_delete(thing("a", 1))
    told.take()
    told.list(2, thing("a", 2))
    assert told.take() == []
    assert told.store.keys() == ()
    assert told.store.statistics().tombstones == 1
    told.list(4)
    assert told.store.statistics().tombstones == 0


def test_r6_an_object_that_outlives_its_delete_comes_back_with_newer_news(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.store.apply_delete(thing("a", 1), answer=thing("a", 5))
    told.take()
    told.store.apply_event(modified(thing("a", 5)))
    assert told.take() == []
    told.store.apply_event(modified(thing("a", 6)))
    assert told.take() == ["+a@6"]


def test_r6_the_answer_of_a_create_that_was_undone_meanwhile_is_out_of_date(told: Told) -> None:
    told.list(10)
    told.take()
    told.store.apply_write(thing("a", 7))
    assert told.take() == []


def test_r6_an_object_that_never_was_in_the_cache_can_be_deleted(told: Told) -> None:
    told.list(1)
    told.take()
    told.store.apply_delete(thing("a", 5))
    told.store.apply_event(added(thing("a", 5)))
    told.store.apply_event(deleted(thing("a", 6)))
    assert told.take() == []
    assert told.store.statistics().tombstones == 0


def test_r6_the_delete_of_an_old_object_leaves_a_new_one_of_its_name_alone(told: Told) -> None:
    told.list(1)
    told.store.apply_write(thing("a", 5, uid="new"))
    told.take()
    told.store.apply_delete(thing("a", 2, uid="old"))
    assert told.take() == []
    assert told.store.get(key("a")) == thing("a", 5, uid="new")


def test_r6_a_late_answer_about_an_old_object_does_not_uncover_the_delete_of_a_new_one(told: Told) -> None:
    told.list(1)
    told.take()
    told.store.apply_delete(thing("a", 5, uid="new"))
    told.store.apply_delete(thing("a", 3, uid="old"))
    told.store.apply_event(added(thing("a", 3, uid="old")))
    told.store.apply_event(added(thing("a", 5, uid="new")))
    assert told.take() == []


def test_a_delete_that_the_watch_showed_before_its_answer_leaves_no_tombstone(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.store.apply_event(deleted(thing("a", 2)))
    told.store.apply_delete(thing("a", 1))
    assert told.store.statistics().tombstones == 0


def test_tombstones_are_bounded(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "TOMBSTONES_MAX", 10)
    told.list(1)
    for number in range(20):
        told.store.apply_delete(thing(f"thing-{number}", 2))
    assert told.store.statistics().tombstones == 10


def test_a_bookmark_frees_the_tombstones_that_it_has_passed(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.store.apply_delete(thing("a", 1), answer=thing("a", 5))
    told.store.apply_event(bookmark(4))
    assert told.store.statistics().tombstones == 1
    told.store.apply_event(bookmark(5))
    assert told.store.statistics().tombstones == 0


def test_a_subscriber_that_writes_does_not_reverse_the_order_for_others() -> None:
    store: Store[Thing] = Store()
    heard: list[str] = []

    def writes(change: Change[Thing]) -> None:
        if isinstance(change, Added):
            store.apply_write(thing("a", 2))

    store.subscribe(writes)
    store.subscribe(lambda change: heard.append(type(change).__name__))
    store.apply_event(added(thing("a", 1)))
    assert heard == ["Added", "Updated"]


# Identity.


def test_l10_another_uid_is_a_delete_and_an_add(told: Told) -> None:
    told.list(1, thing("a", 1, "red", uid="first"))
    told.store.apply_event(modified(thing("a", 3, "blue", uid="second")))
    told.list(5, thing("a", 4, uid="third"))
    assert told.take() == ["*a@1", "synced", "-a@1", "+a@3", "-a@3", "+a@4"]


def test_l10_news_of_the_object_that_was_replaced_is_out_of_date(told: Told) -> None:
    told.list(1, thing("a", 1, uid="first"))
    told.store.apply_write(thing("a", 5, uid="second"))
    told.take()
    told.store.apply_event(modified(thing("a", 2, uid="first")))
    assert told.take() == []
    told.store.apply_delete(thing("a", 5, uid="second"))
    told.store.apply_event(modified(thing("a", 3, uid="first")))
    told.store.apply_event(deleted(thing("a", 4, uid="first")))
    assert told.take() == ["-a@5"]


def test_a_selector_may_let_an_object_go_and_come_back(told: Told) -> None:
    told.store.apply_event(added(thing("a", 1)))
    told.store.apply_event(deleted(thing("a", 2)))
    told.store.apply_event(added(thing("a", 3)))
    assert told.take() == ["+a@1", "-a@2", "+a@3"]


# Lists.


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


# Unreadable objects.


def test_w11_an_unreadable_version_neither_updates_nor_deletes(told: Told) -> None:
    told.list(1, thing("a", 1, "red"))
    told.take()
    told.store.apply_event(modified(bad_thing("a", 2)))
    assert told.take() == []
    assert told.store.get(key("a")) == thing("a", 1, "red")
    assert told.store.unreadable == {key("a"): bad_thing("a", 2)}
    assert told.store.resource_version == "2"
    assert told.store.statistics().unreadable == 1
    told.store.apply_event(modified(thing("a", 3)))
    assert told.take() == ["~a@3"]
    assert told.store.unreadable == {}


def test_w11_an_unreadable_object_that_is_deleted_is_deleted(told: Told) -> None:
    told.list(1, thing("a", 1))
    told.store.apply_event(modified(bad_thing("a", 2)))
    told.take()
    told.store.apply_event(deleted(bad_thing("a", 3)))
    assert told.take() == ["-a@1"]
    assert told.store.unreadable == {}


def test_w11_an_unreadable_object_in_place_of_another_ends_the_old_one(told: Told) -> None:
    told.list(1, thing("a", 1, uid="first"))
    told.take()
    told.store.apply_event(added(bad_thing("a", 3, uid="second")))
    assert told.take() == ["-a@1"]
    assert told.store.unreadable == {key("a"): bad_thing("a", 3, uid="second")}
    told.store.apply_write(thing("a", 2, uid="first"))
    assert told.take() == []


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


def test_the_repr_is_one_line(told: Told) -> None:
    told.list(7, thing("a", 1))
    assert repr(told.store) == "<Store objects=1 unreadable=0 resource_version=7 synced=True>"
