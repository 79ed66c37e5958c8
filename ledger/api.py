"""The calls that the seat protocol needs from an API server and its caches, and how they fail.

An implementation maps its client's errors to the four errors below. All other errors (no permission, no
connection, an unreadable object) propagate unchanged and end the operation. A write must raise
`LedgerOutcomeUnknown` if its answer is missing *or does not state its effect* (timeout, lost connection,
5xx). If the implementation resends a write, its own first attempt may cause `LedgerConflict` or
`LedgerExists`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ledger.seat_rules import LivePod
from ledger.state import ClaimLedger, Seat


class LedgerError(Exception):
    """A failed call on a ledger. The caller reads and decides again."""


class LedgerConflict(LedgerError):
    """The ledger's version or UID is not the one that the write names."""


class LedgerExists(LedgerError):
    """A ledger with this name exists."""


class LedgerMissing(LedgerError):
    """No ledger with this name exists."""


class LedgerOutcomeUnknown(LedgerError):
    """A write without an answer: it has taken effect, has failed, or may still take effect."""


class LedgerApi(Protocol):
    """Calls in the workers' namespace. `name` is the name of a ledger.

    `create` may raise `LedgerExists`, `write_seats` and `delete` may raise `LedgerConflict` or
    `LedgerMissing`, and every write may raise `LedgerOutcomeUnknown`.
    """

    def cached(self, name: str) -> ClaimLedger | None:
        """Return the ledger in the cache, which may be stale, or None if the cache has none."""

    def live_pods(self, claim: str) -> Sequence[LivePod]:
        """Return the cached Pods on the claim that have not ended, with or without a seat."""

    async def read(self, name: str) -> ClaimLedger | None:
        """Return the ledger by a live read, or None if there is none."""

    async def create(self, claim: str, seats: Sequence[Seat]) -> ClaimLedger:
        """Create a claim's ledger (`state.ledger_document`)."""

    async def write_seats(self, ledger: ClaimLedger, seats: Sequence[Seat]) -> ClaimLedger:
        """Write the seats on exactly this version of the ledger (`state.seats_patch`)."""

    async def delete(self, ledger: ClaimLedger) -> None:
        """Delete exactly this version of this ledger (preconditions on UID and resourceVersion)."""

    async def read_claim_uid(self, claim: str, ledger_uid: str) -> str | None:
        """Return the UID of the claim with this name that this ledger owns, or None if there is none.

        The first call happens while the ledger exists. A cached claim is enough: if the cache is stale,
        garbage collection deletes the current claim. Only a live read may return None.
        """

    async def delete_claim(self, claim: str, uid: str) -> None:
        """Delete the claim with this UID. Do nothing if it does not exist."""
