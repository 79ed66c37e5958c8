"""The store by itself: newest wins, indexes, unreadable objects. Ids are those of the checklist."""

import dataclasses
import gc
import weakref

import pytest

from informers.cache.changes import Change
from informers.cache.store import Store
from tests.informers.recorder import Told, key
from tests.informers.scripted_api import (
    Thing,
    added,
    bad_thing,
    bookmark,
    deleted,
    modified,
    thing,
)


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
    told.take()
    found = thing("a", 1, "red")
    told.store.apply_event(added(found))
    told.store.apply_event(added(thing("b", 2, "red")))
    assert len(told.store.by_index("colour", "red")) == 2  # the sorted view is remembered
    gone = weakref.ref(found)
    told.store.apply_event(deleted(thing("a", 3, "red")))
    del found
    gc.collect()
    assert gone() is None


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


def test_the_repr_is_one_line(told: Told) -> None:
    told.list(7, thing("a", 1))
    assert repr(told.store) == "<Store objects=1 unreadable=0 resource_version=7 synced=True>"
