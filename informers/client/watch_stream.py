"""A watch's response, read by ourselves: chunks of bytes in, `WatchEvent`s out.

The invariant: a change is delivered, or the stream fails; none is dropped in silence. So an object
that cannot be decoded is delivered as unreadable, and a line that cannot even be identified (no
JSON, or larger than `MAX_EVENT_BYTES`) ends the watch with `Undecodable`, which a list repairs. What
is skipped, with a log line and a count, cannot be a change to an object of this resource.

Reconnecting, and what to make of each error, is the caller's part.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Generic

import msgspec
from aiohttp import StreamReader
from anyio.lowlevel import checkpoint

from informers.api import Resource, T, WatchEvent, WatchEventType
from informers.client.decoding import read_head, struct_decoder, unreadable
from informers.client.responses import error_for_status, foreign_errors, read_status
from informers.errors import OutcomeUnknown, Undecodable

logger = logging.getLogger(__name__)

# etcd takes 1.5 MiB for one object unless told otherwise, so this is no object that was meant.
MAX_EVENT_BYTES = 16 * 1024 * 1024

# Events come without a task switch as long as they are there; after this many others get a turn.
EVENTS_PER_TURN = 50


@dataclass
class WatchCounts:
    """Counts over all watches of an API: events seen, delivered as unreadable, and skipped."""

    events: int = 0
    unreadable: int = 0
    skipped: int = 0


class _Line(msgspec.Struct, frozen=True):
    # A `Status` instead of an event has `kind` and no `type`.
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


_decode_line = struct_decoder(_Line)


class LineSplitter:
    """Cuts a stream of chunks into lines, wherever the chunks end, keeping at most one unfinished line.

    `feed` raises `Undecodable` when a line grows over `limit_bytes`.
    """

    def __init__(self, limit_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def __repr__(self) -> str:
        return f"<LineSplitter pending={self._size_bytes} limit={self._limit_bytes}>"

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their ends; empty ones are left out."""
        *complete, rest = chunk.split(b"\n")
        lines = []
        for part in complete:
            self._append(part)
            lines.append(self.finish())
        self._append(rest)
        return [line for line in lines if line]

    def finish(self) -> bytes:
        """What came after the last line end, which a server may leave out at the very end."""
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size_bytes = 0
        return line.strip()

    def _append(self, part: bytes) -> None:
        if not part:
            return
        self._parts.append(part)
        self._size_bytes += len(part)
        if self._size_bytes > self._limit_bytes:
            raise Undecodable(f"a watch event is larger than the limit of {self._limit_bytes} bytes")


class EventDecoder(Generic[T]):
    """Turns lines into events of one resource. Raises what an `ERROR` line or a foreign line means."""

    def __init__(self, resource: Resource[T], counts: WatchCounts) -> None:
        self._resource = resource
        self._counts = counts

    def __repr__(self) -> str:
        return f"<EventDecoder {self._resource}>"

    def decode(self, line: bytes) -> WatchEvent[T] | None:
        """One event, or `None` where a line says nothing about an object of this resource."""
        event = self._read(line)
        if event.type == "ERROR":
            raise error_for_status(read_status(event.object))
        data = bytes(event.object)
        head = read_head(data)
        self._counts.events += 1
        try:
            event_type = WatchEventType(event.type)
        except ValueError:
            self._skip(f"unknown type {event.type!r}")
            return None
        if head.kind and head.kind != self._resource.kind:
            self._skip(f"kind {head.kind!r} instead of {self._resource.kind!r}")
            return None
        version = head.metadata.resource_version
        if not version:
            raise Undecodable(f"an event of the watch on {self._resource} has no readable resourceVersion")
        if event_type is WatchEventType.BOOKMARK:
            return WatchEvent(event_type, version)
        try:
            return WatchEvent(event_type, version, object=self._resource.decode(data))
        except ValueError as error:
            self._counts.unreadable += 1
            return WatchEvent(event_type, version, unreadable=unreadable(head.metadata, error))

    def _read(self, line: bytes) -> _Line:
        try:
            event = _decode_line(line)
        except ValueError as error:
            raise Undecodable(f"a line of the watch on {self._resource} is no event: {error}") from error
        if event.type:
            return event
        status = read_status(line)
        if status.kind:
            raise error_for_status(status)
        raise Undecodable(f"a line of the watch on {self._resource} has no event type")

    def _skip(self, why: str) -> None:
        self._counts.skipped += 1
        logger.warning("skipped an event of the watch on %s: %s", self._resource, why)


async def events(
    content: StreamReader, decoder: EventDecoder[T], request: str
) -> AsyncGenerator[WatchEvent[T], None]:
    """Decode the events of a response until it ends. Time limits are those of the response itself.

    Raises `OutcomeUnknown` if the connection breaks or is silent for too long, what an `ERROR` event
    means, and `Undecodable`.
    """
    splitter = LineSplitter()
    turn = 0
    while chunk := await _read(content, request):
        for line in splitter.feed(chunk):
            event = decoder.decode(line)
            if event is not None:
                yield event
            turn += 1
            if turn % EVENTS_PER_TURN == 0:
                await checkpoint()
    event = _last(splitter.finish(), decoder, request)
    if event is not None:
        yield event


async def _read(content: StreamReader, request: str) -> bytes:
    with foreign_errors(request):
        return await content.readany()


def _last(line: bytes, decoder: EventDecoder[T], request: str) -> WatchEvent[T] | None:
    if not line:
        return None
    try:
        return decoder.decode(line)
    except Undecodable as error:
        # Through a proxy that does not use chunks, a broken connection looks like an orderly end.
        raise OutcomeUnknown(f"{request}: the stream ended in the middle of an event") from error
