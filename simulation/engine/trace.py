"""The events of a run in order: a rolling digest of all of them, and the last ones for people.

Two runs are the same run if and only if their digests are equal. The digest covers nothing that differs
between processes of the same seed: no address, no real time, no set order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

EVENTS_KEPT = 400
"""Events that are kept for a report."""

DIGEST_BYTES = 8


@dataclass(frozen=True)
class TraceEvent:
    """One event: time, process, verb, object, and outcome."""

    seconds: float
    process: str
    verb: str
    kind: str
    name: str
    outcome: str


class Trace:
    """An append-only list of events. `seconds` is the simulation's clock, not that of a process."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self._events_total = 0
        self.last_events: deque[TraceEvent] = deque(maxlen=EVENTS_KEPT)
        self.outcome_counts: Counter[tuple[str, str, str]] = Counter()
        """Number of events by (verb, kind, outcome)."""

    def __repr__(self) -> str:
        return f"<Trace events={self._events_total} digest={self.digest}>"

    @property
    def digest(self) -> str:
        """The digest of everything so far, in hexadecimal."""
        return self._hash.hexdigest()

    @property
    def events_total(self) -> int:
        """The number of events so far."""
        return self._events_total

    def add(self, process: str, verb: str, kind: str, name: str, outcome: str = "") -> None:
        """Append an event at the current time."""
        event = TraceEvent(self._seconds(), process, verb, kind, name, outcome)
        self._events_total += 1
        self.last_events.append(event)
        self.outcome_counts[verb, kind, outcome] += 1
        text = f"{event.seconds:.9f} {process} {verb} {kind} {name} {outcome}\n"
        self._hash.update(text.encode())

    def update_digest(self, data: bytes) -> None:
        """Add data to the digest that is not an event: the content of a write, a draw."""
        self._hash.update(data)
