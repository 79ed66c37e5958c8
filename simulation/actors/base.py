"""What all actors share: the server that they write to, the agenda, and their delays.

How long the components of a cluster take, in seconds.
"""

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
class Stage:
    """Where the actors of one cluster act."""

    server: ApiServer
    event_queue: EventQueue
    delays: Delays
    now: Callable[[], datetime]


class Actor:
    """A component that is told of every change, and may be paused: it then misses nothing, and does nothing.

    `name` begins its entries on the agenda.
    """

    name = ""

    def __init__(self, stage: Stage, rng: Random) -> None:
        self._stage = stage
        self._rng = rng
        self._paused = False
        stage.server.store.subscribe(self._hear)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} paused={self._paused}>"

    def pause(self) -> None:
        """Stop working, like a frozen process."""
        self._paused = True

    def resume(self) -> None:
        """Go on, with everything looked at again."""
        self._paused = False
        self._look_at_everything()

    def _hear(self, change: Change) -> None:
        if not self._paused:
            self._on_change(change)

    def _on_change(self, change: Change) -> None:
        """Put on the agenda what has to be done about a change."""
        raise NotImplementedError

    def _look_at_everything(self) -> None:
        """Put on the agenda what may have been missed."""
        raise NotImplementedError

    def _later(self, seconds: float, what: str, key: ObjectKey, act: Callable[[], None]) -> None:
        """Do something about an object after a delay, unless paused by then."""

        def unless_paused() -> None:
            if not self._paused:
                act()

        delay_seconds = self._stage.delays.draw(seconds, self._rng)
        self._stage.event_queue.after(delay_seconds, (self.name, what, *key), unless_paused)

    def _find(self, kind: Kind, key: ObjectKey, uid: str = "") -> Record | None:
        """The object of that key, if it is still the one of that UID."""
        record = self._stage.server.store.get(kind, key)
        return record if record is not None and uid in {"", record.uid} else None

    def _moment(self) -> str:
        return format_time(self._stage.now())


def condition(
    status: Document, type_: str, value: str, *, moment: str, reason: str = "", message: str = ""
) -> list[Document]:
    """The conditions of `status` with one set. Its transition time moves only when its value does."""
    conditions: list[Document] = list(status.get("conditions") or ())
    known = next((item for item in conditions if item["type"] == type_), None)
    item: Document = {"type": type_, "status": value, "lastTransitionTime": moment}
    if known is not None and known["status"] == value:
        item["lastTransitionTime"] = known["lastTransitionTime"]
    item |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
    return [*(each for each in conditions if each["type"] != type_), item]


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Figures as seen on a control plane without load. `spread` 0.5 makes each up to half as long again."""

    scheduling_seconds: float = 0.01
    binding_seconds: float = 0.02
    pod_start_seconds: float = 0.2
    pod_stop_seconds: float = 0.2
    claim_release_seconds: float = 0.02
    garbage_seconds: float = 0.3
    orphaned_pod_seconds: float = 40.0
    spread: float = 0.0

    def draw(self, seconds: float, rng: Random) -> float:
        """One delay."""
        return seconds * (1 + rng.random() * self.spread) if self.spread else seconds
