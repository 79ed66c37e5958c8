"""The base class of all actors, and what they share: the server, the event queue, and their delays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

from informers.api import ObjectKey
from simulation.apiserver.documents import Document, Record, format_time
from simulation.apiserver.kinds import Kind
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Change
from simulation.engine.event_queue import EventQueue


@dataclass(frozen=True)
class ActorContext:
    """What all actors of one cluster share."""

    server: ApiServer
    event_queue: EventQueue
    delays: Delays
    now: Callable[[], datetime]


class Actor:
    """A component that receives every change. While paused it does nothing; it resyncs when it resumes.

    `name` is the first part of its keys in the event queue.
    """

    name = ""

    def __init__(self, context: ActorContext, rng: Random) -> None:
        self._context = context
        self._rng = rng
        self._paused = False
        context.server.store.subscribe(self._deliver)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} paused={self._paused}>"

    def pause(self) -> None:
        """Stop working, like a frozen process."""
        self._paused = True

    def resume(self) -> None:
        """Continue, with a resync of all objects."""
        self._paused = False
        self._resync()

    def _deliver(self, change: Change) -> None:
        if not self._paused:
            self._on_change(change)

    def _on_change(self, change: Change) -> None:
        """Schedule the actions that a change requires."""
        raise NotImplementedError

    def _resync(self) -> None:
        """Schedule the actions that all existing objects require."""
        raise NotImplementedError

    def _schedule(self, seconds: float, verb: str, key: ObjectKey, action: Callable[[], None]) -> None:
        """Run an action on an object after a delay, unless paused by then."""

        def unless_paused() -> None:
            if not self._paused:
                action()

        delay_seconds = self._context.delays.draw(seconds, self._rng)
        self._context.event_queue.schedule(delay_seconds, (self.name, verb, *key), unless_paused)

    def _get(self, kind: Kind, key: ObjectKey, uid: str = "") -> Record | None:
        """Return the object of that key, if it exists and has that UID (if one is given)."""
        record = self._context.server.store.get(kind, key)
        return record if record is not None and uid in {"", record.uid} else None

    def _timestamp(self) -> str:
        return format_time(self._context.now())


def condition(
    status: Document, type_: str, value: str, *, timestamp: str, reason: str = "", message: str = ""
) -> list[Document]:
    """Return the conditions of `status` after one is set. Its transition time changes only with its value."""
    conditions: list[Document] = list(status.get("conditions") or ())
    known = next((item for item in conditions if item["type"] == type_), None)
    item: Document = {"type": type_, "status": value, "lastTransitionTime": timestamp}
    if known is not None and known["status"] == value:
        item["lastTransitionTime"] = known["lastTransitionTime"]
    item |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
    return [*(each for each in conditions if each["type"] != type_), item]


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Delays of an idle control plane. With `spread` 0.5, each is up to 50% longer."""

    scheduling_seconds: float = 0.01
    binding_seconds: float = 0.02
    pod_start_seconds: float = 0.2
    pod_stop_seconds: float = 0.2
    claim_release_seconds: float = 0.02
    garbage_seconds: float = 0.3
    orphaned_pod_seconds: float = 40.0
    quota_seconds: float = 1.0
    eviction_seconds: float = 0.1
    spread: float = 0.0

    def draw(self, seconds: float, rng: Random) -> float:
        """Draw one delay."""
        return seconds * (1 + rng.random() * self.spread) if self.spread else seconds
