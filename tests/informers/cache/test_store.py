"""The store alone: newest version wins, indexes, unreadable objects. Test names contain checklist IDs."""

import dataclasses
import gc
import weakref

import pytest

from informers.api import ObjectKey, UnreadableObject
from informers.cache.changes import Change
from informers.cache.store import Store
from tests.informers.recorder import StoreRecorder, index_values, key, keys
from tests.informers.scripted_api import (
    Thing,
    added,
    bad_thing,
    bookmark,
    deleted,
    modified,
    thing,
)


def test_s1_readers_cannot_change_the_cache(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, "red"))
    assert isinstance(recorder.store.by_index("colour", "red"), tuple)
    assert isinstance(keys(recorder.store), tuple)
    with pytest.raises(dataclasses.FrozenInstanceError):
        recorder.store.by_index("colour", "red")[0].colours = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        recorder.store.unreadable[key("a")] = bad_thing("a", 2)  # type: ignore[index]


def test_s2_cache_and_indexes_change_before_the_notification(recorder: StoreRecorder) -> None:
    seen: list[tuple[Thing | None, tuple[Thing, ...], tuple[Thing, ...]]] = []

    def read(_: Change[Thing]) -> None:
        store = recorder.store
        seen.append((store.get(key("a")), store.by_index("colour", "red"), store.by_index("colour", "blue")))

    recorder.store.subscribe(read)
    red, blue = thing("a", 1, "red"), thing("a", 2, "blue")
    recorder.store.apply_event(added(red))
    recorder.store.apply_event(modified(blue))
    recorder.store.apply_event(deleted(thing("a", 3, "blue")))
    assert seen == [(red, (red,), ()), (blue, (), (blue,)), (None, (), ())]


def test_s3_index_follows_a_changed_value_and_empty_buckets_vanish(recorder: StoreRecorder) -> None:
    recorder.store.apply_event(added(thing("a", 1, "red", "blue")))
    recorder.store.apply_event(added(thing("b", 2, "blue")))
    assert index_values(recorder.store, "colour") == ("blue", "red")
    recorder.store.apply_event(modified(thing("a", 3, "green")))
    assert index_values(recorder.store, "colour") == ("blue", "green")
    assert recorder.store.by_index("colour", "red") == ()
    recorder.store.apply_event(deleted(thing("b", 4, "blue")))
    assert index_values(recorder.store, "colour") == ("green",)
    assert list(recorder.store._contents._buckets["colour"]) == ["green"]


def test_a_bucket_is_sorted_by_key(recorder: StoreRecorder) -> None:
    for version, name in enumerate("cab", 1):
        recorder.store.apply_event(added(thing(name, version, "red")))
    assert [found.metadata.name for found in recorder.store.by_index("colour", "red")] == ["a", "b", "c"]
    assert keys(recorder.store) == (key("a"), key("b"), key("c"))


def test_an_unknown_index_is_an_error_not_an_empty_result(recorder: StoreRecorder) -> None:
    with pytest.raises(KeyError, match="color"):
        recorder.store.by_index("color", "red")


def test_an_index_function_that_raises_leaves_the_store_unchanged() -> None:
    def colour_of(found: Thing) -> list[str]:
        return [found.colours[0]]

    store: Store[Thing] = Store({"first": lambda found: [found.metadata.name], "colour": colour_of})
    with pytest.raises(IndexError):
        store.apply_write(thing("a", 1))
    assert keys(store) == ()
    assert index_values(store, "first") == ()


def test_s13_a_deletion_reports_the_last_state_with_the_version_of_the_deletion(
    recorder: StoreRecorder,
) -> None:
    recorder.store.apply_event(added(thing("a", 1)))
    recorder.store.apply_event(deleted(thing("a", 5)))
    assert recorder.take() == ["+a@1", "-a@5"]


def test_s14_nothing_references_a_deleted_object(recorder: StoreRecorder) -> None:
    recorder.take()
    found = thing("a", 1, "red")
    recorder.store.apply_event(added(found))
    recorder.store.apply_event(added(thing("b", 2, "red")))
    assert len(recorder.store.by_index("colour", "red")) == 2  # builds the cached sorted view
    freed = weakref.ref(found)
    recorder.store.apply_event(deleted(thing("a", 3, "red")))
    del found
    gc.collect()
    assert freed() is None


def test_w20_replayed_events_change_and_report_nothing(recorder: StoreRecorder) -> None:
    recorder.list(10, thing("a", 10, "red"))
    recorder.take()
    for version in range(1, 11):
        recorder.store.apply_event(modified(thing("a", version, "blue")))
    recorder.store.apply_event(deleted(thing("a", 9)))
    assert recorder.take() == []
    assert recorder.store.by_index("colour", "red") == (thing("a", 10, "red"),)
    assert recorder.store.resource_version == "10"
    assert recorder.store.statistics().stale_total == 11


def test_w20_versions_are_compared_as_numbers(recorder: StoreRecorder) -> None:
    recorder.store.apply_event(added(thing("a", 9)))
    recorder.store.apply_event(modified(thing("a", 10)))
    assert recorder.take() == ["+a@9", "~a@10"]


def test_w20_a_replay_does_not_restore_a_deleted_object(recorder: StoreRecorder) -> None:
    recorder.store.apply_event(added(thing("a", 1)))
    recorder.store.apply_event(deleted(thing("a", 3)))
    recorder.take()
    recorder.store.apply_event(modified(thing("a", 2)))
    assert recorder.take() == []


def test_w10_a_bookmark_moves_the_version_only(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.take()
    recorder.store.apply_event(bookmark(100))
    assert recorder.take() == []
    assert recorder.store.resource_version == "100"


def test_a_version_that_is_not_a_number_raises(recorder: StoreRecorder) -> None:
    odd = Thing(dataclasses.replace(thing("a", 1).metadata, resource_version="v1"))
    with pytest.raises(ValueError, match="v1"):
        recorder.store.apply_write(odd)


def test_w11_an_unreadable_version_neither_updates_nor_deletes(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, "red"))
    recorder.take()
    recorder.store.apply_event(modified(bad_thing("a", 2)))
    assert recorder.take() == []
    assert recorder.store.get(key("a")) == thing("a", 1, "red")
    assert recorder.store.unreadable == {key("a"): bad_thing("a", 2)}
    assert recorder.store.resource_version == "2"
    assert recorder.store.statistics().unreadable == 1
    recorder.store.apply_event(modified(thing("a", 3)))
    assert recorder.take() == ["~a@3"]
    assert recorder.store.unreadable == {}


def test_w11_unreadable_objects_are_announced_once_marked(recorder: StoreRecorder) -> None:
    store, announced = recorder.store, list[tuple[UnreadableObject, bool]]()
    store.on_unreadable = lambda bad: announced.append((bad, store.unreadable[ObjectKey.of(bad)] is bad))
    store.apply_event(added(bad_thing("a", 2)))
    pending = store.begin_list()
    pending.add_unreadable(bad_thing("b", 3))
    for _ in store.replace_in_slices(pending, "4"):
        pass
    assert announced == [(bad_thing("a", 2), True), (bad_thing("b", 3), True)]


def test_w11_an_unreadable_object_can_be_deleted(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1))
    recorder.store.apply_event(modified(bad_thing("a", 2)))
    recorder.take()
    recorder.store.apply_event(deleted(bad_thing("a", 3)))
    assert recorder.take() == ["-a@1"]
    assert recorder.store.unreadable == {}


def test_w11_an_unreadable_replacement_deletes_the_old_object(recorder: StoreRecorder) -> None:
    recorder.list(1, thing("a", 1, uid="first"))
    recorder.take()
    recorder.store.apply_event(added(bad_thing("a", 3, uid="second")))
    assert recorder.take() == ["-a@1"]
    assert recorder.store.unreadable == {key("a"): bad_thing("a", 3, uid="second")}
    recorder.store.apply_write(thing("a", 2, uid="first"))
    assert recorder.take() == []


def test_the_repr_is_one_line(recorder: StoreRecorder) -> None:
    recorder.list(7, thing("a", 1))
    assert repr(recorder.store) == "<Store objects=1 unreadable=0 resource_version=7 synced=True>"
