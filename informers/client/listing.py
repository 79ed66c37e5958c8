"""Decodes a list response in slices while it arrives.

A relist is one response with every object, hundreds of megabytes in a large cluster. It is never held or
decoded as a whole: once `SLICE_BYTES` have arrived, their complete items are decoded and passed on, and other
tasks run.

Invariant: the result equals that of decoding the whole response at once. Item boundaries are guessed from how
Go's encoder writes lists. Parsing the text before a boundary verifies the guess: it is well-formed only at a
true boundary. Text in another format is decoded in fewer slices, at worst in one. An item that its decoder
rejects never hides another.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Generic

import msgspec
from anyio.lowlevel import checkpoint

from informers.api import Page, Resource, T, UnreadableObject
from informers.client.decoding import decode_or_unreadable, struct_decoder
from informers.errors import Undecodable

SLICE_BYTES: Final = 256 * 1024
"""Decoding blocks the event loop: about 3 ms for this much at 100 MB/s, a slow decoder on a slow core."""

_ATTEMPTS_MAX: Final = 8
"""Candidate boundaries per slice before more text is awaited."""

_PREFIX_BYTES: Final = 21
"""Length of the prefix that all items share: `{"metadata":{"name":"`, or the `apiVersion`."""

_ITEMS: Final = re.compile(rb'"items"\s*:\s*\[\s*(?=\{)')


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True, gc=False):
    # Go writes an empty list of some kinds as null.
    items: list[msgspec.Raw] | None
    metadata: _ListMetadata = _ListMetadata()


_decode_list = struct_decoder(_List)
_decode_items = struct_decoder(list[msgspec.Raw])


class ListSplitter:
    """Splits a list's text into items while it arrives. Holds at most about `slice_bytes` and one item."""

    def __init__(self, slice_bytes: int = SLICE_BYTES) -> None:
        self._slice_bytes = slice_bytes
        self._wanted_bytes = slice_bytes
        self._head = b""  # up to the first item, empty until that is found
        self._separator = b""  # text between two items with the prefix of the second one
        self._rest = bytearray()

    def __repr__(self) -> str:
        return f"<ListSplitter pending={len(self._rest)} slice={self._slice_bytes}>"

    def feed(self, chunk: bytes) -> Sequence[msgspec.Raw]:
        """Return the items that are complete with `chunk`, once they fill a slice."""
        self._rest += chunk
        if len(self._rest) < self._wanted_bytes:
            return ()
        items = self._complete() if self._head or self._find_head() else ()
        # Doubles without success, so that text that cannot be split is not scanned over and over.
        self._wanted_bytes = self._slice_bytes if items else 2 * len(self._rest)
        return items

    def finish(self) -> tuple[Sequence[msgspec.Raw], _ListMetadata]:
        """Return the remaining items, at least one if the list has any, and the list's metadata.

        Raises `ValueError` if the whole text is not a list.
        """
        listed = _decode_list(self._head + bytes(self._rest))
        self._rest.clear()
        return listed.items or (), listed.metadata

    def _find_head(self) -> bool:
        found = _ITEMS.search(self._rest)
        if found is None:
            return False
        self._head = bytes(self._rest[: found.end()])
        del self._rest[: found.end()]
        self._separator = b"}," + bytes(self._rest[:_PREFIX_BYTES])
        return True

    def _complete(self) -> Sequence[msgspec.Raw]:
        end = len(self._rest)
        for _ in range(_ATTEMPTS_MAX):
            end = self._rest.rfind(self._separator, 0, end)
            if end < 0:
                break
            try:
                items = _decode_items(b"[" + self._rest[: end + 1] + b"]")
            except ValueError:
                continue  # inside an item, or the text is faulty, which `finish` reports
            del self._rest[: end + 2]
            return items
        return ()


class _ItemDecoder(Generic[T]):
    """Decodes items and passes them on; collects those that cannot be decoded."""

    def __init__(self, resource: Resource[T], on_object: Callable[[T], object]) -> None:
        self._resource = resource
        self._on_object = on_object
        self.rejected: list[UnreadableObject] = []

    async def decode(self, items: Sequence[msgspec.Raw]) -> None:
        slice_bytes = 0
        for raw in items:
            data = bytes(raw)
            obj = decode_or_unreadable(self._resource, data)
            if isinstance(obj, UnreadableObject):
                self.rejected.append(obj)
            else:
                self._on_object(obj)
            slice_bytes += len(data)
            if slice_bytes >= SLICE_BYTES:
                slice_bytes = 0
                await checkpoint()


async def read_page(
    resource: Resource[T], chunks: AsyncIterator[bytes], on_object: Callable[[T], object] | None = None
) -> Page[T]:
    """Decode one page of a list while it arrives, and let other tasks run between slices.

    Each decoded object goes to `on_object` if given, else into the page. Raises `Undecodable` only if the
    response is not a list.
    """
    splitter, objects = ListSplitter(), list[T]()
    decoder = _ItemDecoder(resource, on_object or objects.append)
    async for chunk in chunks:
        items = splitter.feed(chunk)
        if items:
            await decoder.decode(items)
            await checkpoint()
    try:
        items, metadata = splitter.finish()
    except ValueError as error:
        raise Undecodable(f"the response to listing {resource} is not a list: {error}") from error
    await decoder.decode(items)
    return Page(
        items=objects,
        unreadable=decoder.rejected,
        resource_version=metadata.resource_version,
        continue_token=metadata.continue_token,
    )
