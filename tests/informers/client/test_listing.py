"""A list split into items while it arrives equals the list decoded at once."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.client.listing import ListSplitter, read_page
from informers.errors import Undecodable
from tests.informers.client.objects import THINGS, Thing, decode_page, listing, thing

# Texts that resemble the boundary between two items, inside and outside of strings.
LOOKALIKES = st.sampled_from(['},{"metadata":{"name":"x"}', "}", "{", "[", "]", '"', "\\", '\\"},{', "é"])
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(0, 99), LOOKALIKES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["metadata", "items", "b"]), inner)
    ),
    max_leaves=6,
)
ITEMS = st.lists(st.fixed_dictionaries({"metadata": VALUES}, optional={"spec": VALUES}), max_size=8)


def compact(document: object) -> bytes:
    """Return the JSON text as Go's encoder writes it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def split(text: bytes, cuts: list[int], slice_bytes: int) -> list[Any]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    splitter = ListSplitter(slice_bytes)
    found = [item for start, end in pairwise(edges) for item in splitter.feed(text[start:end])]
    rest, metadata = splitter.finish()
    assert metadata.resource_version == "9"
    return [json.loads(bytes(item)) for item in [*found, *rest]]


@given(ITEMS, st.lists(st.integers(0, 600), max_size=20), st.integers(1, 300))
def test_items_do_not_depend_on_chunk_boundaries(items: list[Any], cuts: list[int], slice_bytes: int) -> None:
    assert split(compact(listing(*items)), cuts, slice_bytes) == items


@given(ITEMS, st.lists(st.integers(0, 600), max_size=20), st.integers(1, 300))
def test_items_do_not_depend_on_the_format_of_the_text(
    items: list[Any], cuts: list[int], slice_bytes: int
) -> None:
    document = dict(reversed(listing(*items).items()))  # items first, metadata last
    assert split(json.dumps(document, indent=1).encode(), cuts, slice_bytes) == items


def test_an_arriving_list_is_neither_held_nor_decoded_at_once() -> None:
    items = [thing(f"thing-{number}", text="x" * 500) for number in range(100)]
    text = compact(listing(*items))
    splitter = ListSplitter(slice_bytes=2000)
    returned_counts = []
    for start in range(0, len(text), 100):
        returned_counts.append(len(splitter.feed(text[start : start + 100])))
        assert len(repr(splitter)) < 60
    assert max(returned_counts) <= 4
    assert sum(returned_counts) >= 95


def test_nested_lists_do_not_prevent_slicing() -> None:
    inner = [{"metadata": {"name": f"x{number}"}} for number in range(5)]
    items = [{"metadata": {"name": f"t{number}"}, "spec": {"template": inner}} for number in range(50)]
    text = compact(listing(*items))
    splitter = ListSplitter(slice_bytes=600)
    before_the_end = sum(len(splitter.feed(text[at : at + 100])) for at in range(0, len(text), 100))
    assert before_the_end >= 45


def test_text_that_is_not_a_list_is_rejected_at_the_end() -> None:
    splitter = ListSplitter(slice_bytes=4)
    for chunk in (b'{"items":[', b'{"a":1},', b'{"a":2},', b'{"a":3'):
        splitter.feed(chunk)
    with pytest.raises(ValueError, match=r"[Ii]nput|JSON|truncated"):
        splitter.finish()


@pytest.mark.anyio
async def test_objects_are_passed_on_as_they_are_decoded() -> None:
    seen: list[str] = []
    alive: list[int] = []

    async def chunks() -> AsyncIterator[bytes]:
        text = compact(listing(*(thing(f"t{number}", text="x" * 5000) for number in range(200))))
        for start in range(0, len(text), 50_000):
            alive.append(len(seen))
            yield text[start : start + 50_000]

    page = await read_page(THINGS, chunks(), lambda obj: seen.append(obj.metadata.name))
    assert seen == [f"t{number}" for number in range(200)]
    assert page.items == []
    assert page.resource_version == "9"
    assert 0 < alive[-1] < 200, "all arrived at the end"


@pytest.mark.anyio
async def test_an_undecodable_item_does_not_affect_the_rest_of_its_slice() -> None:
    sizes: list[object] = [1 if number % 50 else "much" for number in range(1, 301)]
    things = [thing(f"t{number}", size=size, text="x" * 5000) for number, size in enumerate(sizes)]
    page = await decode_page(compact(listing(*things)))
    assert len(page.items) == 294
    assert [bad.name for bad in page.unreadable] == [f"t{number}" for number in range(49, 300, 50)]


@pytest.mark.anyio
async def test_a_truncated_response_is_undecodable() -> None:
    text = compact(listing(*(thing(f"t{number}", text="x" * 5000) for number in range(200))))
    seen: list[Thing] = []
    with pytest.raises(Undecodable, match="is not a list"):
        await decode_page(text[:-700], seen.append)
    assert seen, "items before the end were passed on; the caller discards them"


@pytest.mark.anyio
async def test_l16_a_long_list_needs_the_memory_of_one_slice() -> None:
    item = compact(thing(text="x" * 10_000)).strip()
    count = 2000

    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"kind":"ThingList","metadata":{"resourceVersion":"9"},"items":['
        for number in range(count):
            yield item + (b"," if number < count - 1 else b"]}")

    count_seen = 0

    def count_object(_: Thing) -> None:
        nonlocal count_seen
        count_seen += 1

    tracemalloc.start()
    try:
        await read_page(THINGS, chunks(), count_object)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count_seen == count
    assert peak_bytes < count * len(item) / 10
