"""A list's text, cut into items while it arrives: the same items as if it had come at once."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.client.listing import ListSplitter, decode_page, read_page
from informers.errors import Undecodable
from tests.informers.client.objects import THINGS, Thing, listing, thing

# Texts that look like the place between two items, in and out of strings.
TEMPTING = st.sampled_from(['},{"metadata":{"name":"x"}', "}", "{", "[", "]", '"', "\\", '\\"},{', "é"])
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(0, 99), TEMPTING),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["metadata", "items", "b"]), inner)
    ),
    max_leaves=6,
)
ITEMS = st.lists(st.fixed_dictionaries({"metadata": VALUES}, optional={"spec": VALUES}), max_size=8)


def compact(document: object) -> bytes:
    """As Go's encoder writes it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def split(text: bytes, cuts: list[int], slice_bytes: int) -> list[Any]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    splitter = ListSplitter(slice_bytes)
    found = [item for start, end in pairwise(edges) for item in splitter.feed(text[start:end])]
    rest, metadata = splitter.finish()
    assert metadata.resource_version == "9"
    return [json.loads(bytes(item)) for item in [*found, *rest]]


@given(ITEMS, st.lists(st.integers(0, 600), max_size=20), st.integers(1, 300))
def test_items_are_the_same_wherever_pieces_end(items: list[Any], cuts: list[int], slice_bytes: int) -> None:
    assert split(compact(listing(*items)), cuts, slice_bytes) == items


@given(ITEMS, st.lists(st.integers(0, 600), max_size=20), st.integers(1, 300))
def test_items_are_the_same_however_the_text_is_written(
    items: list[Any], cuts: list[int], slice_bytes: int
) -> None:
    document = dict(reversed(listing(*items).items()))  # items first, metadata last
    assert split(json.dumps(document, indent=1).encode(), cuts, slice_bytes) == items


def test_a_list_that_arrives_is_neither_held_nor_decoded_at_once() -> None:
    items = [thing(f"thing-{number}", text="x" * 500) for number in range(100)]
    text = compact(listing(*items))
    splitter = ListSplitter(slice_bytes=2000)
    given_at_once = []
    for start in range(0, len(text), 100):
        given_at_once.append(len(splitter.feed(text[start : start + 100])))
        assert len(repr(splitter)) < 60
    assert max(given_at_once) <= 4
    assert sum(given_at_once) >= 95


def test_items_that_hold_lists_like_their_own_do_not_stop_the_slicing() -> None:
    inner = [{"metadata": {"name": f"x{number}"}} for number in range(5)]
    items = [{"metadata": {"name": f"t{number}"}, "spec": {"template": inner}} for number in range(50)]
    text = compact(listing(*items))
    splitter = ListSplitter(slice_bytes=600)
    before_the_end = sum(len(splitter.feed(text[at : at + 100])) for at in range(0, len(text), 100))
    assert before_the_end >= 45


def test_text_that_is_no_list_is_refused_in_the_end() -> None:
    splitter = ListSplitter(slice_bytes=4)
    for piece in (b'{"items":[', b'{"a":1},', b'{"a":2},', b'{"a":3'):
        splitter.feed(piece)
    with pytest.raises(ValueError, match=r"[Ii]nput|JSON|truncated"):
        splitter.finish()


@pytest.mark.anyio
async def test_objects_are_handed_over_as_they_are_decoded() -> None:
    seen: list[str] = []
    alive: list[int] = []

    async def pieces() -> AsyncIterator[bytes]:
        text = compact(listing(*(thing(f"t{number}", text="x" * 5000) for number in range(200))))
        for start in range(0, len(text), 50_000):
            alive.append(len(seen))
            yield text[start : start + 50_000]

    page = await read_page(THINGS, pieces(), lambda obj: seen.append(obj.metadata.name))
    assert seen == [f"t{number}" for number in range(200)]
    assert page.items == []
    assert page.resource_version == "9"
    assert 0 < alive[-1] < 200, "all came at the end"


@pytest.mark.anyio
async def test_one_item_that_cannot_be_decoded_leaves_the_rest_in_every_slice() -> None:
    sizes: list[object] = [1 if number % 50 else "much" for number in range(1, 301)]
    things = [thing(f"t{number}", size=size, text="x" * 5000) for number, size in enumerate(sizes)]
    page = await decode_page(THINGS, compact(listing(*things)))
    assert len(page.items) == 294
    assert [bad.name for bad in page.unreadable] == [f"t{number}" for number in range(49, 300, 50)]


@pytest.mark.anyio
async def test_an_answer_that_is_cut_off_is_undecodable() -> None:
    text = compact(listing(*(thing(f"t{number}", text="x" * 5000) for number in range(200))))
    taken: list[Thing] = []
    with pytest.raises(Undecodable, match="is no list"):
        await decode_page(THINGS, text[:-700], taken.append)
    assert taken, "what came before was taken, for the caller to throw away"


@pytest.mark.anyio
async def test_l16_a_long_list_takes_the_memory_of_a_slice() -> None:
    item = compact(thing(text="x" * 10_000)).strip()
    count = 2000

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"kind":"ThingList","metadata":{"resourceVersion":"9"},"items":['
        for number in range(count):
            yield item + (b"," if number < count - 1 else b"]}")

    taken = 0

    def take(_: Thing) -> None:
        nonlocal taken
        taken += 1

    tracemalloc.start()
    try:
        await read_page(THINGS, pieces(), take)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == count
    assert peak_bytes < count * len(item) / 10
