"""The port: what the seat protocol needs of an API server and its caches, and how a call can fail.

The implementation maps its client's errors to the four below in one place; everything else (no rights,
no connection, an unreadable object) propagates unchanged and means that nothing more is decided now.

`LedgerOutcomeUnknown` must be raised for every write whose answer is missing *or says nothing about the
write* (time-out, lost connection, 5xx): it may have taken effect, and may still. A write that is sent again
underneath this port may come back as `LedgerConflict` or `LedgerExists` because of itself; that is fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ledger.state import ClaimLedger, Seat
from ledger.transitions import LivePod


class LedgerError(Exception):
    """A call on a ledger did not do what it was asked to. Each means: read again, decide again."""


class LedgerConflict(LedgerError):
    """The ledger is not at the version (or UID) that the write was decided from."""


class LedgerExists(LedgerError):
    """A ledger of this name is there already."""


class LedgerMissing(LedgerError):
    """There is no ledger of this name."""


class LedgerOutcomeUnknown(LedgerError):
    """No answer came: the write took effect, or did not, or still may."""


class LedgerApi(Protocol):
    """Calls in the workers' namespace. `name` is the ledger's name, unless it says claim."""

    def cached(self, name: str) -> ClaimLedger | None:
        """The ledger as the cache shows it, which may be old. `None`: it shows none."""

    def live_pods(self, claim: str) -> Sequence[LivePod]:
        """The Pods on the claim that have not ended, as the cache shows them, with or without a seat."""

    async def read(self, name: str) -> ClaimLedger | None:
        """The ledger past every cache. `None`: there is none."""

    async def create(self, claim: str, seats: Sequence[Seat]) -> ClaimLedger:
        """Create a claim's ledger (`state.ledger_document`).

        Raises:
            LedgerExists, OutcomeUnknown.
        """

    async def write_seats(self, ledger: ClaimLedger, seats: Sequence[Seat]) -> ClaimLedger:
        """Write the seats, on exactly this version of the ledger (`state.seats_patch`).

        Raises:
            LedgerConflict, LedgerMissing, OutcomeUnknown.
        """

    async def delete(self, ledger: ClaimLedger) -> None:
        """Delete exactly this version of exactly this ledger (preconditions UID and resourceVersion).

        Raises:
            LedgerConflict, LedgerMissing, OutcomeUnknown.
        """

    async def read_claim_uid(self, claim: str, ledger_uid: str) -> str | None:
        """UID of the claim of this name that the ledger with this UID owns. `None`: there is none.

        It is first asked while the ledger exists. A cache may answer with a claim that it shows as owned: an
        old answer only leaves the claim to garbage collection. It may not answer `None`.
        """

    async def delete_claim(self, claim: str, uid: str) -> None:
        """Delete the claim with exactly this UID. One that is gone, or another of its name, is no error.

        Raises:
            OutcomeUnknown.
        """
