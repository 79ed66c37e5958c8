"""The store and our own writes: read at once, never undone by older news. Ids are those of the checklist."""

import pytest

from informers.cache import tombstones
from informers.cache.changes import Change, Transition
from informers.cache.store import Store
from tests.informers.recorder import Told, describe_change, key
from tests.informers.scripted_api import (
    Thing,
    added,
    bookmark,
    deleted,
    modified,
    thing,
)


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
        if isinstance(change, Transition) and change.old is None:
            store.apply_write(thing("a", 2))

    store.subscribe(writes)
    store.subscribe(lambda change: heard.append(describe_change(change)))
    store.apply_event(added(thing("a", 1)))
    assert heard == ["+a@1", "~a@2"]


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


def only_red(told: Told) -> None:
    """List and watch show red things only."""
    told.store = Store({"colour": lambda found: found.colours}, selects=lambda found: "red" in found.colours)
    told.store.subscribe(told.hear)


def test_r6_an_answer_that_is_not_selected_is_not_taken_in(told: Told) -> None:
    """Its label was taken away before: the watch says nothing of it, not even that it ended."""
    only_red(told)
    told.list(1)
    told.take()
    told.store.apply_write(thing("a", 5, "blue"))
    assert told.take() == []
    assert told.store.keys() == ()
    told.store.apply_event(bookmark(6))
    assert told.store.statistics().tombstones == 0


def test_r6_an_answer_that_is_not_selected_any_more_hides_the_object_until_newer_news(told: Told) -> None:
    only_red(told)
    told.list(1, thing("a", 1, "red"))
    told.take()
    told.store.apply_write(thing("a", 5, "blue"))
    assert told.take() == ["-a@5"]
    told.store.apply_event(modified(thing("a", 4, "red")))
    told.store.apply_event(deleted(thing("a", 5, "blue")))
    assert told.take() == []
    told.store.apply_event(added(thing("a", 7, "red")))
    assert told.take() == ["+a@7"]
