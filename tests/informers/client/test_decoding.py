"""Decoding of objects, splitting of chunks into lines, and blocking of the event loop."""

from __future__ import annotations

import json
from itertools import pairwise

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.client.decoding import Metadata, struct_decoder
from informers.client.listing import SLICE_BYTES
from informers.client.watch_stream import LineSplitter
from informers.errors import Undecodable
from tests.informers.client.objects import Thing, decode_page, listing, thing


def test_metadata_reads_what_controllers_need_and_skips_the_rest() -> None:
    decode = struct_decoder(Metadata)
    owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u2", "controller": True}
    metadata = decode(
        json.dumps(
            {
                "name": "a",
                "namespace": "n",
                "uid": "u",
                "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z",
                "labels": {"k": "v"},
                "ownerReferences": [owner],
                "finalizers": ["f"],
                "managedFields": [{"a": 1}],
                "generation": 3,
            }
        ).encode()
    )
    assert (metadata.name, metadata.namespace, metadata.uid, metadata.resource_version) == (
        "a",
        "n",
        "u",
        "7",
    )
    assert metadata.creation_timestamp == "2026-01-01T00:00:00Z"
    assert metadata.deletion_timestamp == "2026-01-02T00:00:00Z"
    assert metadata.labels == {"k": "v"}
    assert metadata.finalizers == ("f",)
    (reference,) = metadata.owner_references
    assert (reference.kind, reference.name, reference.uid, reference.controller) == ("K", "o", "u2", True)


def test_s1_decoded_objects_are_immutable() -> None:
    decoded = struct_decoder(Metadata)(b'{"name":"a","labels":{"k":"v"}}')
    with pytest.raises(AttributeError):
        decoded.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        decoded.labels["k"] = "w"  # type: ignore[index]
    assert decoded == struct_decoder(Metadata)(b'{"name":"a","labels":{"k":"v"}}')


def test_metadata_can_be_subclassed() -> None:
    class Annotated(Metadata, frozen=True, rename="camel", gc=False):
        annotations: dict[str, str] = msgspec.field(default_factory=dict)

    decoded = struct_decoder(Annotated)(b'{"name":"a","labels":{"k":"v"},"annotations":{"x":"y"}}')
    assert (decoded.name, decoded.annotations) == ("a", {"x": "y"})
    with pytest.raises(TypeError):
        decoded.labels["k"] = "w"  # type: ignore[index]


@pytest.mark.parametrize("data", [b"", b"nonsense", b"{}", b'{"name":5}', b'{"name":"\xff"}', b"[" * 100_000])
def test_invalid_input_raises_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        struct_decoder(Metadata)(data)


@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=30)),
    cuts=st.lists(st.integers(0, 300)),
    ended=st.booleans(),
)
def test_w18_lines_do_not_depend_on_chunk_boundaries(lines: list[str], cuts: list[int], ended: bool) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ended else b"")
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    splitter = LineSplitter()
    seen = [line for start, end in pairwise(edges) for line in splitter.feed(data[start:end])]
    seen.append(splitter.finish())
    expected = [line.encode().strip() for line in lines]
    assert [line for line in seen if line] == [line for line in expected if line]
    assert repr(splitter) == f"<LineSplitter pending=0 limit={16 * 2**20}>"


def test_w13_a_line_over_the_limit_is_rejected_before_it_is_complete() -> None:
    splitter = LineSplitter(limit_bytes=10)
    assert splitter.feed(b"0123456789\n012345678") == [b"0123456789"]
    with pytest.raises(Undecodable, match="limit of 10 bytes"):
        splitter.feed(b"9a")


@pytest.mark.anyio
async def test_l17_other_tasks_run_between_the_slices_of_a_long_list() -> None:
    text = "x" * 5000
    objects = [thing(f"t{number}", text=text) for number in range(1000)]
    data = json.dumps(listing(*objects)).encode()
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        page = await decode_page(data)
        tasks.cancel_scope.cancel()
    assert len(page.items) == 1000
    assert turns >= len(data) // (SLICE_BYTES + 6000)
    assert isinstance(page.items[0], Thing)
