"""Decodes a watch response: chunks of bytes to `WatchEvent`s.

Invariant: a change is delivered, or the stream fails; no change is dropped silently. An object that cannot be
decoded is delivered as unreadable. A line that cannot be identified (not JSON, or larger than
`MAX_EVENT_BYTES`) ends the watch with `Undecodable`, which a list repairs. Skipped lines are logged and
counted; they cannot be changes to an object of this resource.

Not done here: reconnecting and error handling, which belong to the caller.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Generic

import msgspec
from anyio.lowlevel import checkpoint

from informers.api import Resource, T, UnreadableObject, WatchEvent, WatchEventType
from informers.client.decoding import decode_or_unreadable, read_type_meta, struct_decoder
from informers.client.responses import error_for_status, read_status
from informers.errors import OutcomeUnknown, Undecodable

logger = logging.getLogger(__name__)

# etcd limits an object to 1.5 MiB by default, so a larger line is not a legitimate object.
MAX_EVENT_BYTES = 16 * 1024 * 1024

# Available events are delivered without a task switch; other tasks run after this many.
EVENTS_PER_TURN = 50


@dataclass
class WatchCounts:
    """Counts over all watches of an API: events received, delivered as unreadable, and skipped."""

    events: int = 0
    unreadable: int = 0
    skipped: int = 0


class _Line(msgspec.Struct, frozen=True):
    # A `Status` instead of an event has `kind` and no `type`.
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


_decode_line = struct_decoder(_Line)


class LineSplitter:
    """Splits a stream of chunks into lines and holds at most one incomplete line.

    `feed` raises `Undecodable` for a line longer than `limit_bytes`.
    """

    def __init__(self, limit_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def __repr__(self) -> str:
        return f"<LineSplitter pending={self._size_bytes} limit={self._limit_bytes}>"

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without line ends and empty lines."""
        *complete, rest = chunk.split(b"\n")
        lines = []
        for part in complete:
            self._append(part)
            lines.append(self.finish())
        self._append(rest)
        return [line for line in lines if line]

    def finish(self) -> bytes:
        """Return the text after the last line end; a server may omit the very last line end."""
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
    """Decodes lines to events of one resource. Raises the error that an `ERROR` or invalid line indicates."""

    def __init__(self, resource: Resource[T], counts: WatchCounts) -> None:
        self._resource = resource
        self._counts = counts

    def __repr__(self) -> str:
        return f"<EventDecoder {self._resource}>"

    def decode(self, line: bytes) -> WatchEvent[T] | None:
        """Decode one event. Returns `None` for a line that concerns no object of this resource."""
        event = self._read(line)
        if event.type == "ERROR":
            raise error_for_status(read_status(event.object))
        data = bytes(event.object)
        meta = read_type_meta(data)
        self._counts.events += 1
        try:
            event_type = WatchEventType(event.type)
        except ValueError:
            self._skip(f"unknown type {event.type!r}")
            return None
        if meta.kind and meta.kind != self._resource.kind:
            self._skip(f"kind {meta.kind!r} instead of {self._resource.kind!r}")
            return None
        version = meta.metadata.resource_version
        if not version:
            raise Undecodable(f"an event of the watch on {self._resource} has no readable resourceVersion")
        if event_type is WatchEventType.BOOKMARK:
            return WatchEvent(event_type, version)
        obj = decode_or_unreadable(self._resource, data)
        if isinstance(obj, UnreadableObject):
            self._counts.unreadable += 1
            return WatchEvent(event_type, version, unreadable=obj)
        return WatchEvent(event_type, version, object=obj)

    def _read(self, line: bytes) -> _Line:
        try:
            event = _decode_line(line)
        except ValueError as error:
            raise Undecodable(f"a line of the watch on {self._resource} is not an event: {error}") from error
        if event.type:
            return event
        status = read_status(line)
        if status.kind:
            raise error_for_status(status)
        raise Undecodable(f"a line of the watch on {self._resource} has no event type")

    def _skip(self, reason: str) -> None:
        self._counts.skipped += 1
        logger.warning("Skipped watch event", extra={"resource": str(self._resource), "reason": reason})


async def decode_events(
    chunks: AsyncIterator[bytes], decoder: EventDecoder[T], request: str
) -> AsyncGenerator[WatchEvent[T], None]:
    """Decode the events of a response until it ends.

    Raises the error of an `ERROR` event, `Undecodable`, and `OutcomeUnknown` for an incomplete last event.
    """
    splitter = LineSplitter()
    lines = 0
    async for chunk in chunks:
        for line in splitter.feed(chunk):
            event = decoder.decode(line)
            if event is not None:
                yield event
            lines += 1
            if lines % EVENTS_PER_TURN == 0:
                await checkpoint()
    event = _decode_last(splitter.finish(), decoder, request)
    if event is not None:
        yield event


def _decode_last(line: bytes, decoder: EventDecoder[T], request: str) -> WatchEvent[T] | None:
    if not line:
        return None
    try:
        return decoder.decode(line)
    except Undecodable as error:
        # Through a proxy without chunked encoding, a broken connection looks like a clean end.
        raise OutcomeUnknown(f"{request}: the stream ended in the middle of an event") from error
