"""What happened in a run, in order: a rolling digest of all of it, and the last of it for people.

Two runs are the same run if and only if their digests are. Nothing goes in that differs between processes of
the same seed: no address, no real time, no order of a set.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

KEPT = 400
"""Events that are kept for a report."""

DIGEST_BYTES = 8


@dataclass(frozen=True)
class TraceEvent:
    """One event: when, who, did what, to what, with which outcome."""

    seconds: float
    process: str
    verb: str
    kind: str
    name: str
    outcome: str


class Trace:
    """Append only. `seconds` is the clock of the world, not that of a process."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self._events_total = 0
        self.last: deque[TraceEvent] = deque(maxlen=KEPT)
        self.outcomes: Counter[tuple[str, str, str]] = Counter()
        """How often each (verb, kind, outcome) was seen."""

    def __repr__(self) -> str:
        return f"<Trace events={self._events_total} digest={self.digest}>"

    @property
    def digest(self) -> str:
        """Of everything so far, in hexadecimal."""
        return self._hash.hexdigest()

    @property
    def events_total(self) -> int:
        """How many events there were."""
        return self._events_total

    def add(self, process: str, verb: str, kind: str, name: str, outcome: str = "") -> None:
        """Note an event at this moment."""
        event = TraceEvent(self._seconds(), process, verb, kind, name, outcome)
        self._events_total += 1
        self.last.append(event)
        self.outcomes[verb, kind, outcome] += 1
        text = f"{event.seconds:.9f} {process} {verb} {kind} {name} {outcome}\n"
        self._hash.update(text.encode())

    def mix(self, data: bytes) -> None:
        """Take into the digest what is no event of its own: the content of a write, a draw."""
        self._hash.update(data)
