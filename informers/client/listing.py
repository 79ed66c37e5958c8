"""A list's response, read by ourselves: pieces of bytes in, decoded objects out, a slice at a time.

A relist is one answer with every object in it, hundreds of megabytes in a large cluster. It is neither held
nor decoded as a whole: as soon as `SLICE_BYTES` are there, the complete items among them are decoded and
handed over, and other tasks get their turn.

The invariant: what comes out is what decoding the whole answer at once would give. Where an item may end is
guessed, from how Go's encoder writes lists; that the guess is right is proved by parsing what is before it,
which is well-formed only at a true end. Text that is written otherwise is decoded in fewer pieces, at worst
in one. One item that its decoder refuses never hides another.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Generic

import msgspec
from anyio.lowlevel import checkpoint

from informers.api import Page, Resource, T, UnreadableObject
from informers.client.decoding import read_head, struct_decoder, unreadable
from informers.errors import Undecodable

SLICE_BYTES: Final = 256 * 1024
"""Decoding holds the event loop; about 3 ms of it at 100 MB/s, a slow decoder on a slow core."""

_ATTEMPTS_MAX: Final = 8
"""Places that are tried as the end of an item before more text is waited for."""

_MARK_BYTES: Final = 21
"""How much of the first item's beginning stands for all: `{"metadata":{"name":"`, or the API's name."""

_ITEMS: Final = re.compile(rb'"items"\s*:\s*\[\s*(?=\{)')


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True, gc=False):
    # Go writes an empty list of some kinds as null.
    items: list[msgspec.Raw] | None
    metadata: _ListMetadata = _ListMetadata()


_decode_list = struct_decoder(_List)
_items_decoder: Final = msgspec.json.Decoder(list[msgspec.Raw])


class ListSplitter:
    """Cuts a list's text into its items while it arrives. Holds about `slice_bytes` and one item at most."""

    def __init__(self, slice_bytes: int = SLICE_BYTES) -> None:
        self._slice_bytes = slice_bytes
        self._wanted_bytes = slice_bytes
        self._head = b""  # up to the first item; before that is found, nothing
        self._separator = b""  # what stands between two items, and how the second of them begins
        self._rest = bytearray()

    def __repr__(self) -> str:
        return f"<ListSplitter pending={len(self._rest)} slice={self._slice_bytes}>"

    def feed(self, piece: bytes) -> Sequence[msgspec.Raw]:
        """Items that are complete with `piece`, once they make up a slice."""
        self._rest += piece
        if len(self._rest) < self._wanted_bytes:
            return ()
        items = self._complete() if self._head or self._find_head() else ()
        # Without success twice as much is waited for: text that cannot be cut is not scanned over and over.
        self._wanted_bytes = self._slice_bytes if items else 2 * len(self._rest)
        return items

    def finish(self) -> tuple[Sequence[msgspec.Raw], _ListMetadata]:
        """The items that are left, at least one if there are any, and the list's metadata.

        Raises `ValueError` if all of it together is no list.
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
        self._separator = b"}," + bytes(self._rest[:_MARK_BYTES])
        return True

    def _complete(self) -> Sequence[msgspec.Raw]:
        end = len(self._rest)
        for _ in range(_ATTEMPTS_MAX):
            end = self._rest.rfind(self._separator, 0, end)
            if end < 0:
                break
            try:
                items = _items_decoder.decode(b"[" + self._rest[: end + 1] + b"]")
            except (msgspec.MsgspecError, RecursionError):
                continue  # inside an item, or the text is faulty, which shows in the end
            del self._rest[: end + 2]
            return items
        return ()


class _Taker(Generic[T]):
    """Decodes items and hands them over; keeps what cannot be decoded."""

    def __init__(self, resource: Resource[T], take: Callable[[T], object]) -> None:
        self._decode = resource.decode
        self._take = take
        self.refused: list[UnreadableObject] = []

    async def take(self, items: Sequence[msgspec.Raw]) -> None:
        slice_bytes = 0
        for raw in items:
            data = bytes(raw)
            try:
                obj = self._decode(data)
            except ValueError as error:
                self.refused.append(unreadable(read_head(data).metadata, error))
            else:
                self._take(obj)
            slice_bytes += len(data)
            if slice_bytes >= SLICE_BYTES:
                slice_bytes = 0
                await checkpoint()


async def read_page(
    resource: Resource[T], pieces: AsyncIterator[bytes], take: Callable[[T], object] | None = None
) -> Page[T]:
    """Decode one page of a list while it arrives, letting the event loop run between slices.

    Each object goes to `take`, where given, as soon as it is decoded, and else into the page. Raises
    `Undecodable` only if the answer is no list at all.
    """
    splitter, objects = ListSplitter(), list[T]()
    taker = _Taker(resource, take or objects.append)
    async for piece in pieces:
        items = splitter.feed(piece)
        if items:
            await taker.take(items)
            await checkpoint()
    try:
        items, metadata = splitter.finish()
    except ValueError as error:
        raise Undecodable(f"the answer to listing {resource} is no list: {error}") from error
    await taker.take(items)
    return Page(
        items=objects,
        unreadable=taker.refused,
        resource_version=metadata.resource_version,
        continue_token=metadata.continue_token,
    )


async def decode_page(
    resource: Resource[T], data: bytes, take: Callable[[T], object] | None = None
) -> Page[T]:
    """The same for an answer that is there already."""
    return await read_page(resource, _pieces_of(data), take)


async def _pieces_of(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), SLICE_BYTES):
        yield data[start : start + SLICE_BYTES]
