"""How a seat went from one worker to the next, as the revisions of its ledger show it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Revision:
    """The seats of one ledger at one revision, and when a witness saw it."""

    ledger: str
    seats: tuple[str, ...]
    seen_seconds: float


@dataclass(frozen=True)
class Handoff:
    """A seat that was freed and taken again. Seconds are of the witness's clock."""

    ledger: str
    giver: str
    taker: str
    freed_seconds: float
    taken_seconds: float


def find_handoff(revisions: Iterable[Revision], giver: str) -> Handoff | None:
    """The hand-off of the seat that `giver` left last; `None` if it left none or nobody took it.

    A ledger that is deleted with its last seat hands nothing over: its GPU is given anew.
    """
    before: dict[str, tuple[str, ...]] = {}
    freed: Revision | None = None
    found: Handoff | None = None
    for revision in revisions:
        seats = before.get(revision.ledger, ())
        came = [name for name in revision.seats if name not in seats]
        if giver in seats and giver not in revision.seats:
            freed, found = revision, None
        if freed is not None and found is None and revision.ledger == freed.ledger and came:
            found = Handoff(freed.ledger, giver, came[0], freed.seen_seconds, revision.seen_seconds)
        before[revision.ledger] = revision.seats
    return found
