"""What a ledger holds, as it stands in the API: the authority on who shares a claim (contract §2.2).

Invariant: what was read is what is sent. Seats are written as a whole list, so fields that only
another version of the controller knows, and the absence of fields that an earlier one never wrote,
must survive the round trip; `seat_document` and `seats_patch` are the only ways out of here.

Reading is lenient on purpose: a ledger that cannot be read is a claim that nobody can join or retire.
Nothing is decided here (`ledger.transitions`) and nothing is sent (`ledger.book`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ledger.names import is_claim_name, ledger_labels, ledger_name

CLAIM_LEDGERS_GROUP = "openrl.io"
CLAIM_LEDGERS_VERSION = "v1alpha1"
CLAIM_LEDGERS_API_VERSION = f"{CLAIM_LEDGERS_GROUP}/{CLAIM_LEDGERS_VERSION}"
CLAIM_LEDGERS_PLURAL = "claimledgers"
CLAIM_LEDGERS_KIND = "ClaimLedger"


@dataclass(frozen=True, slots=True, order=True)
class SeatRef:
    """Exactly one booking: what a release names. A name alone never identifies a seat."""

    workload: str
    workload_uid: str
    assignment_id: str

    def __str__(self) -> str:
        """For messages: the three parts."""
        return f"{self.workload} (UID {self.workload_uid}, assignment {self.assignment_id})"


class Seat(BaseModel):
    """One worker's seat. Only the name is required: the others may predate the field."""

    model_config = ConfigDict(frozen=True, extra="allow", validate_by_name=True)

    workload: str
    workload_uid: str = Field(default="", alias="workloadUID")
    assignment_id: str = Field(default="", alias="assignmentID")
    owner_id: str = Field(default="", alias="ownerID")
    """The unit of fairness; see `owner_key`."""
    exclusive: bool = False
    """Whether this worker shares with nobody. Absent is false: serializers omit zero values."""
    host_request: str | int | float = Field(default="", alias="hostRequest")
    """Memory that the Pod requests, as a canonical quantity; empty where it was never written.

    A bare number is a quantity, too, and stays one: seats are sent as they were read.
    """

    @property
    def owner_key(self) -> str:
        """Whose seat it is: a worker without an owner is its own."""
        return self.owner_id or self.workload

    @property
    def ref(self) -> SeatRef:
        """The exact name of this booking."""
        return SeatRef(self.workload, self.workload_uid, self.assignment_id)


class LedgerMeta(BaseModel):
    """The metadata that caching, compare-and-swap and ownership need; the rest is not kept."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True)

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = Field(default="", alias="resourceVersion")
    deletion_timestamp: str | None = Field(default=None, alias="deletionTimestamp")
    labels: Mapping[str, str] = Field(default_factory=dict)


class LedgerSpec(BaseModel):
    """The claim that a ledger stands for, and the seats on it: at most one per worker's name."""

    model_config = ConfigDict(frozen=True, extra="allow", validate_by_name=True)

    claim_name: str = Field(alias="claimName")
    seats: tuple[Seat, ...] = ()


class ClaimLedger(BaseModel):
    """One ledger at one version."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True)

    metadata: LedgerMeta
    spec: LedgerSpec

    @property
    def claim_name(self) -> str:
        """Name of the claim whose seats these are."""
        return self.spec.claim_name

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The seats in their stored order."""
        return self.spec.seats

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted, and only held by a finalizer."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_well_named(self) -> bool:
        """Whether it has the name that its claim's ledger has: an odd one that somebody made is not ours."""
        return is_claim_name(self.claim_name) and self.metadata.name == ledger_name(self.claim_name)

    def holds(self, ref: SeatRef) -> bool:
        """Whether exactly this booking is here."""
        return any(seat.ref == ref for seat in self.seats)

    def __repr__(self) -> str:
        """Name, version and seats in one line."""
        seats = ", ".join(seat.workload for seat in self.seats)
        return f"<ClaimLedger {self.metadata.name}@{self.metadata.resource_version} [{seats}]>"

    __str__ = __repr__


def decode(data: bytes) -> ClaimLedger:
    """Read a ledger from the JSON text of one object.

    Raises:
        ValueError: it is no JSON, or not a ledger (pydantic's `ValidationError` is one).
    """
    return ClaimLedger.model_validate_json(data, by_alias=True, by_name=False)


def seat_document(seat: Seat) -> dict[str, Any]:
    """A seat as the API knows it: as it was read, unknown fields included, plus what we changed."""
    return seat.model_dump(by_alias=True, exclude_unset=True)


def ledger_document(claim: str, namespace: str, seats: Sequence[Seat]) -> dict[str, Any]:
    """A new ledger, to be created together with its founder's seat."""
    return {
        "apiVersion": CLAIM_LEDGERS_API_VERSION,
        "kind": CLAIM_LEDGERS_KIND,
        "metadata": {"name": ledger_name(claim), "namespace": namespace, "labels": ledger_labels(claim)},
        "spec": {"claimName": claim, "seats": [seat_document(seat) for seat in seats]},
    }


def seats_patch(ledger: ClaimLedger, seats: Sequence[Seat]) -> dict[str, Any]:
    """The merge patch that gives a ledger new seats, on the version that they were decided from.

    Lists are replaced as a whole by a merge patch; all else on the ledger is left alone.
    """
    return {
        "metadata": {"resourceVersion": ledger.metadata.resource_version},
        "spec": {"seats": [seat_document(seat) for seat in seats]},
    }
