"""The form of events: invalid notes and names are never sent."""

from __future__ import annotations

import re
from datetime import timedelta, timezone

import pytest

from informers.api import micro_time
from informers.events.object import EventBody, EventType, event_name, truncate_note
from tests.informers.events.event_server import EPOCH, at, thing


@pytest.mark.parametrize("note", ["a" * 1025, "é" * 600, "€" * 400, "🙂" * 300, "a" + "🙂" * 300])
def test_a_long_note_is_truncated_at_a_character_boundary(note: str) -> None:
    short = truncate_note(note)
    assert 1024 - 3 <= len(short.encode()) <= 1024
    assert short.endswith("…")
    assert note.startswith(short[:-1])


@pytest.mark.parametrize("note", ["", "a" * 1024, "🙂" * 256])
def test_a_note_within_the_limit_is_unchanged(note: str) -> None:
    assert truncate_note(note) == note


def test_half_a_surrogate_pair_in_a_note_is_replaced() -> None:
    assert truncate_note("a\ud800b") == "a?b"


def painted(name: str, seconds: float = 0) -> EventBody:
    time = EPOCH + timedelta(seconds=seconds)
    return EventBody(thing(name), EventType.NORMAL, "Painted", "Painting", "It is blue", None, time)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("worker.a-1", "worker.a-1"),
        ("a" * 253, "a" * 230),
        ("a" * 229 + ".bb", "a" * 229),
        ("system:node", "thing"),
        ("-a", "thing"),
    ],
)
def test_an_event_is_named_after_its_object_if_the_name_is_valid(name: str, stem: str) -> None:
    whole = event_name(painted(name), 2**32 - 1)
    assert re.fullmatch(re.escape(stem) + r"\.[0-9a-f]{14}f{8}", whole)
    assert len(whole) <= 253


def test_event_names_of_one_object_sort_by_time() -> None:
    names = [event_name(painted("a", seconds), bits) for seconds, bits in [(0, 9), (1e-6, 5), (1e9, 1)]]
    assert names == sorted(names)
    assert event_name(painted("a"), 1) != event_name(painted("a"), 2)


def test_times_are_written_in_utc() -> None:
    assert micro_time(EPOCH.astimezone(timezone(timedelta(hours=2)))) == at(0)
