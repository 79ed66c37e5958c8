"""Watches: history first, then live changes, in order and with the lag of each client.

A watch is a queue of lines, each with the time from which it may be read. A watch can lag, fall silent, end,
fail, or lose its connection. The client decides how to react.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import anyio
import msgspec

from informers.api import Selectors, WatchEventType, version_number
from simulation.apiserver import refusals
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import Kind
from simulation.apiserver.refusals import Refusal
from simulation.apiserver.replicas import Replica, Replicas
from simulation.apiserver.selectors import Selector, compile_selectors
from simulation.apiserver.store import Change, Store

BOOKMARK_SECONDS = 60.0
"""The interval of bookmarks on a watch without other events."""

WAIT_MIN_SECONDS = 1e-6


class ConnectionLost(Exception):
    """The connection of a watch was lost."""


@dataclass(frozen=True)
class _Line:
    due_seconds: float
    data: bytes


def _no_lag(_client: str, _kind: Kind) -> float:
    return 0.0


class Watches:
    """All open watches of one server.

    `lag_seconds` returns how late a client sees the changes of a kind, on top of its replica's lag. Order
    within a watch is kept. `bookmarks` may be turned off. Like real servers, a watch from an expired version
    either fails as a request (if `refuses_expired` returns true) or with an event inside the stream.
    """

    def __init__(self, store: Store, replicas: Replicas | None = None) -> None:
        self._store = store
        self._replicas = replicas or Replicas()
        self.now: Callable[[], float] = anyio.current_time
        """The server's clock. The clocks of clients may run at other rates."""
        self.bookmarks = True
        self.refuses_expired: Callable[[], bool] = lambda: False
        self._open: list[Watch] = []
        self._opened_total = 0
        self.lag_seconds: Callable[[str, Kind], float] = _no_lag
        store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<Watches open={len(self._open)} opened={self._opened_total}>"

    def open(self, client: str, kind: Kind, namespace: str, selectors: Selectors, version: str) -> Watch:
        """Open a watch of the changes after `version`. Without one, or with 0, existing objects come first.

        By default, a compacted version fails the watch with 410 inside the stream, as real servers do.
        """
        try:
            after = version_number(version)
        except ValueError as error:
            raise refusals.unreadable_version(version) from error
        matches = compile_selectors(kind, selectors)
        replica = self._replicas.choose()
        watch = Watch(self, client, kind, namespace=namespace, matches=matches, replica=replica, after=after)
        self._opened_total += 1
        if after and after < self._store.compacted:
            refusal = refusals.expired(f"too old resource version: {after} ({self._store.compacted})")
            if self.refuses_expired():
                raise refusal
            watch.fail(refusal)
            return watch
        now = self.now()
        for record in self._store.all(kind) if not after else ():
            watch.deliver(Change(0, WatchEventType.ADDED, kind, record, None), now)
        for change in self._store.changes_after(after or self._store.revision):
            watch.deliver(change, now if replica is None else replica.due_seconds(change.revision))
        self._open.append(watch)
        return watch

    def forget(self, watch: Watch) -> None:
        """Close a watch whose client has disconnected."""
        if watch in self._open:
            self._open.remove(watch)

    def drop(self, client: str) -> None:
        """Close all watches of a crashed client."""
        self._open = [watch for watch in self._open if watch.client != client]

    def revision_seen(self, replica: Replica | None) -> int:
        """Return the last revision that a replica has seen."""
        newest = self._store.revision
        return newest if replica is None else replica.revision(self.now(), newest)

    def matching(self, client: str = "", kind: Kind | None = None) -> list[Watch]:
        """Return the open watches, optionally of one client and kind, in the order of opening."""
        return [w for w in self._open if client in {"", w.client} and kind in {None, w.kind}]

    def _on_change(self, change: Change) -> None:
        self._replicas.record(change)
        now = self.now()
        for watch in self._open:
            if watch.kind is change.kind:
                seen = now if watch.replica is None else watch.replica.due_seconds(change.revision)
                watch.deliver(change, seen + self.lag_seconds(watch.client, watch.kind))


class Watch:
    """One open watch."""

    def __init__(
        self,
        watches: Watches,
        client: str,
        kind: Kind,
        *,
        namespace: str,
        matches: Selector,
        replica: Replica | None,
        after: int,
    ) -> None:
        self.client = client
        self.kind = kind
        self.replica = replica
        self._watches = watches
        self._after = after
        self._namespace = namespace
        self._matches = matches
        self._lines: deque[_Line] = deque()
        self._silenced = False
        self._ended = False
        self._cut = False
        self._changed = anyio.Event()
        self._bookmark_seconds = watches.now() + BOOKMARK_SECONDS

    def __repr__(self) -> str:
        return f"<Watch {self.kind} by {self.client} pending={len(self._lines)} ended={self._ended}>"

    def deliver(self, change: Change, due_seconds: float) -> None:
        """Queue a change that matches this watch, readable from `due_seconds` on."""
        for type_, record in self._events(change):
            self._queue(_line(type_.value, record), due_seconds)

    def fail(self, refusal: Refusal) -> None:
        """Queue an error event and end after it."""
        self._queue(_line("ERROR", msgspec.Raw(refusal.data)), 0.0)
        self.end()

    def end(self) -> None:
        """End the watch after the queued events."""
        self._ended = True
        self._changed.set()

    def cut(self) -> None:
        """Break the connection. Queued events are lost."""
        self._cut = True
        self._changed.set()

    def silence(self) -> None:
        """Send no more events, without ending."""
        self._silenced = True
        self._changed.set()

    def now(self) -> float:
        """Return the time of the server's clock."""
        return self._watches.now()

    async def read(self, until_seconds: float) -> bytes | None:
        """Return the next line, or `None` at the end or at `until_seconds`. Raises `ConnectionLost`."""
        while True:
            if self._cut:
                raise ConnectionLost
            now = self.now()
            if self._silenced:
                next_seconds = until_seconds
            elif self._lines:
                if self._lines[0].due_seconds <= now:
                    self._bookmark_seconds = now + BOOKMARK_SECONDS
                    return self._lines.popleft().data
                next_seconds = self._lines[0].due_seconds
            elif self._ended:
                return None
            elif self._bookmark_seconds <= now:
                self._bookmark_seconds = now + BOOKMARK_SECONDS
                if self._watches.bookmarks:
                    return self._bookmark()
                continue
            else:
                next_seconds = self._bookmark_seconds
            if until_seconds <= now:
                return None
            self._changed = anyio.Event()
            # A client's clock may run faster: the remaining time may be below its resolution.
            with anyio.move_on_after(max(WAIT_MIN_SECONDS, min(next_seconds, until_seconds) - now)):
                await self._changed.wait()

    @property
    def ended(self) -> bool:
        """Whether the server has ended it and all events were read."""
        return self._ended and not self._lines

    def _queue(self, data: bytes, due_seconds: float) -> None:
        # A line never overtakes an earlier one, whatever its due time.
        self._lines.append(_Line(due_seconds, data))
        self._changed.set()

    def _events(self, change: Change) -> Iterator[tuple[WatchEventType, Record]]:
        """Yield the events of a change. An object that starts or stops matching is added or deleted."""
        if change.kind is not self.kind or self._namespace not in {"", change.record.key.namespace}:
            return
        deleted = change.type is WatchEventType.DELETED
        before = change.before is not None and self._matches(change.before.document)
        after = not deleted and self._matches(change.record.document)
        if after:
            yield (WatchEventType.MODIFIED if before else WatchEventType.ADDED), change.record
        elif before and change.before is not None:
            yield WatchEventType.DELETED, change.record if deleted else _at(change.before, change.revision)

    def _bookmark(self) -> bytes:
        metadata = {"resourceVersion": str(max(self._after, self._watches.revision_seen(self.replica)))}
        document: Document = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        return _line(WatchEventType.BOOKMARK.value, Record({**document, "metadata": metadata}))


def _at(record: Record, revision: int) -> Record:
    """Return the last matching state, with the revision at which it stopped matching."""
    document = record.copy()
    document["metadata"]["resourceVersion"] = str(revision)
    return Record(document)


def _line(type_: str, subject: Record | msgspec.Raw) -> bytes:
    raw = msgspec.Raw(subject.data) if isinstance(subject, Record) else subject
    return msgspec.json.encode({"type": type_, "object": raw})
