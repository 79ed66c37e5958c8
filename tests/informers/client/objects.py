"""A small kind of object for tests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import msgspec

from informers.api import Page, Resource
from informers.client.decoding import Metadata, struct_decoder
from informers.client.listing import SLICE_BYTES, read_page


class ThingSpec(msgspec.Struct, frozen=True):
    size: int = 0
    text: str = ""


class Thing(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: ThingSpec = ThingSpec()


THINGS = Resource("example.io", "v1", "things", "Thing", True, struct_decoder(Thing))
NODES = Resource("", "v1", "nodes", "Node", False, struct_decoder(Thing))


def thing(
    name: str = "a", *, version: int = 1, size: object = 1, text: str = "", kind: str = "Thing"
) -> dict[str, object]:
    """A Thing as JSON; a `size` other than an integer makes it unreadable."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {
        "kind": kind,
        "apiVersion": "example.io/v1",
        "metadata": metadata,
        "spec": {"size": size, "text": text},
    }


def event(type_: str, obj: object) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": type_, "object": obj}, ensure_ascii=False).encode() + b"\n"


def added(name: str = "a", *, version: int = 1, size: object = 1, text: str = "") -> bytes:
    return event("ADDED", thing(name, version=version, size=size, text=text))


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(version)}})


def listing(*objects: object, version: int = 9, token: str = "") -> dict[str, object]:
    metadata = {"resourceVersion": str(version), "continue": token}
    return {"kind": "ThingList", "apiVersion": "example.io/v1", "metadata": metadata, "items": list(objects)}


async def decode_page(data: bytes, on_object: Callable[[Thing], object] | None = None) -> Page[Thing]:
    """Decode a page that arrives in chunks of one slice."""

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), SLICE_BYTES):
            yield data[start : start + SLICE_BYTES]

    return await read_page(THINGS, chunks(), on_object)
