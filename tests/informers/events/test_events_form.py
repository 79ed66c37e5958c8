"""The form of events: what the API server would refuse, or people could not read, is kept out."""

from __future__ import annotations

import re
from datetime import timedelta, timezone

import pytest

from informers.events.object import EventBody, EventType, cut_note, event_name, micro_time
from tests.informers.events.event_server import EPOCH, at, thing


@pytest.mark.parametrize("note", ["a" * 1025, "é" * 600, "€" * 400, "🙂" * 300, "a" + "🙂" * 300])
def test_a_long_note_is_cut_between_two_characters(note: str) -> None:
    short = cut_note(note)
    assert 1024 - 3 <= len(short.encode()) <= 1024
    assert short.endswith("…")
    assert note.startswith(short[:-1])


@pytest.mark.parametrize("note", ["", "a" * 1024, "🙂" * 256])
def test_a_note_that_fits_stays(note: str) -> None:
    assert cut_note(note) == note


def test_half_a_surrogate_pair_in_a_note_harms_nobody() -> None:
    assert cut_note("a\ud800b") == "a?b"


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
def test_an_event_is_named_after_its_object_as_far_as_a_name_allows(name: str, stem: str) -> None:
    whole = event_name(painted(name), 2**32 - 1)
    assert re.fullmatch(re.escape(stem) + r"\.[0-9a-f]{14}f{8}", whole)
    assert len(whole) <= 253


def test_names_of_events_about_one_object_are_in_the_order_of_time() -> None:
    names = [event_name(painted("a", seconds), bits) for seconds, bits in [(0, 9), (1e-6, 5), (1e9, 1)]]
    assert names == sorted(names)
    assert event_name(painted("a"), 1) != event_name(painted("a"), 2)


def test_times_are_utc_whatever_zone_the_clock_has() -> None:
    assert micro_time(EPOCH.astimezone(timezone(timedelta(hours=2)))) == at(0)
