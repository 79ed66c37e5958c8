"""The ClaimLedger object: the authority on who shares a claim (contract §2.2).

Invariant: a write sends seats exactly as they were read, plus this controller's change. A write replaces the
whole list. Fields of other controller versions must survive, and so must the absence of fields that an
earlier version did not write. `seat_document` and `seats_patch` are the only serializers. Decoding is
lenient: nobody could join or retire a claim whose ledger cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ledger.claim_names import is_claim_name, ledger_labels, ledger_name

CLAIM_LEDGERS_GROUP = "openrl.io"
CLAIM_LEDGERS_VERSION = "v1alpha1"
CLAIM_LEDGERS_API_VERSION = f"{CLAIM_LEDGERS_GROUP}/{CLAIM_LEDGERS_VERSION}"
CLAIM_LEDGERS_PLURAL = "claimledgers"
CLAIM_LEDGERS_KIND = "ClaimLedger"


@dataclass(frozen=True, slots=True, order=True)
class SeatRef:
    """The identity of one booking, as a release names it. A worker's name alone never identifies a seat."""

    workload: str
    workload_uid: str
    assignment_id: str

    def __str__(self) -> str:
        """Return all three parts, for messages."""
        return f"{self.workload} (UID {self.workload_uid}, assignment {self.assignment_id})"


class Seat(BaseModel):
    """One worker's seat. Only the name is required: an older seat may lack the other fields."""

    model_config = ConfigDict(frozen=True, extra="allow", validate_by_name=True)

    workload: str
    workload_uid: str = Field(default="", alias="workloadUID")
    assignment_id: str = Field(default="", alias="assignmentID")
    owner_id: str = Field(default="", alias="ownerID")
    """Unit of fairness, see `owner_key`."""
    exclusive: bool = False
    """Whether this worker never shares its claim. If absent it is false: serializers omit zero values."""
    host_request: str | int | float = Field(default="", alias="hostRequest")
    """Memory that the Pod requests, as a canonical quantity. Empty if the writer did not know the field.

    A JSON number is a quantity too. It stays a number, because seats are sent as they were read.
    """

    @property
    def owner_key(self) -> str:
        """Unit of fairness: the owner, or the worker itself if it has none."""
        return self.owner_id or self.workload

    @property
    def ref(self) -> SeatRef:
        """Identity of this booking."""
        return SeatRef(self.workload, self.workload_uid, self.assignment_id)


class LedgerMeta(BaseModel):
    """The metadata that caching, compare-and-swap and ownership need. Decoding drops the rest."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True)

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = Field(default="", alias="resourceVersion")
    deletion_timestamp: str | None = Field(default=None, alias="deletionTimestamp")
    labels: Mapping[str, str] = Field(default_factory=dict)


class LedgerSpec(BaseModel):
    """The claim of a ledger and the seats on it, at most one per worker name."""

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
        """Name of the claim."""
        return self.spec.claim_name

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Seats in their stored order."""
        return self.spec.seats

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted and only a finalizer keeps it."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_well_named(self) -> bool:
        """Whether its name follows from its claim's name. This controller ignores any other ledger."""
        return is_claim_name(self.claim_name) and self.metadata.name == ledger_name(self.claim_name)

    def holds(self, ref: SeatRef) -> bool:
        """Return whether the ledger has exactly this booking."""
        return any(seat.ref == ref for seat in self.seats)

    def __repr__(self) -> str:
        """Return name, version and seats."""
        seats = ", ".join(seat.workload for seat in self.seats)
        return f"<ClaimLedger {self.metadata.name}@{self.metadata.resource_version} [{seats}]>"

    __str__ = __repr__


def decode(data: bytes) -> ClaimLedger:
    """Decode a ledger from the JSON text of one object.

    Raises:
        ValueError: the text is not JSON or not a ledger (pydantic's `ValidationError` is a `ValueError`).
    """
    return ClaimLedger.model_validate_json(data, by_alias=True, by_name=False)


def seat_document(seat: Seat) -> dict[str, Any]:
    """Return the JSON document of a seat: as it was read, unknown fields included, plus changes."""
    return seat.model_dump(by_alias=True, exclude_unset=True)


def ledger_document(claim: str, namespace: str, seats: Sequence[Seat]) -> dict[str, Any]:
    """Return the JSON document of a new ledger with its seats."""
    return {
        "apiVersion": CLAIM_LEDGERS_API_VERSION,
        "kind": CLAIM_LEDGERS_KIND,
        "metadata": {"name": ledger_name(claim), "namespace": namespace, "labels": ledger_labels(claim)},
        "spec": {"claimName": claim, "seats": [seat_document(seat) for seat in seats]},
    }


def seats_patch(ledger: ClaimLedger, seats: Sequence[Seat]) -> dict[str, Any]:
    """Return the merge patch that writes new seats, conditional on exactly this version of the ledger.

    A merge patch replaces a list as a whole and leaves all other fields unchanged. Labels that somebody
    removed return with the next write.
    """
    return {
        "metadata": {
            "resourceVersion": ledger.metadata.resource_version,
            "labels": ledger_labels(ledger.claim_name),
        },
        "spec": {"seats": [seat_document(seat) for seat in seats]},
    }
