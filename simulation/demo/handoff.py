"""Hand-off of a seat from one worker to the next, computed from the revisions of its ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Revision:
    """The seats of one ledger at one revision, and when it was observed."""

    ledger: str
    seats: tuple[str, ...]
    seen_seconds: float


@dataclass(frozen=True)
class Handoff:
    """A seat that was freed and booked again. All seconds are read from the observer's clock."""

    ledger: str
    leaver: str
    successor: str
    freed_seconds: float
    booked_seconds: float


def find_handoff(revisions: Iterable[Revision], leaver: str) -> Handoff | None:
    """Return the last hand-off of a seat of `leaver`, or `None` if no other worker booked its seat.

    If the ledger was deleted with its last seat, there was no hand-off: the GPU was allocated again.
    """
    before: dict[str, tuple[str, ...]] = {}
    freed: Revision | None = None
    found: Handoff | None = None
    for revision in revisions:
        seats = before.get(revision.ledger, ())
        new = [name for name in revision.seats if name not in seats]
        if leaver in seats and leaver not in revision.seats:
            freed, found = revision, None
        if freed is not None and found is None and revision.ledger == freed.ledger and new:
            found = Handoff(freed.ledger, leaver, new[0], freed.seen_seconds, revision.seen_seconds)
        before[revision.ledger] = revision.seats
    return found
