"""Builders of ledgers, seats and seat requests."""

from __future__ import annotations

from typing import Any

from ledger.claim_names import ledger_name
from ledger.seat_rules import LivePod, SeatRequest
from ledger.state import ClaimLedger, LedgerMeta, LedgerSpec, Seat, SeatRef

CLAIM = "claim-creator-0a1b2c3d"
LEDGER = ledger_name(CLAIM)
LEDGER_UID = "uid-of-ledger"


def seat(
    workload: str, *, uid: str = "", assignment: str = "", exclusive: bool = False, **unknown: Any
) -> Seat:
    return Seat.model_validate(
        {
            "workload": workload,
            "workloadUID": uid or f"uid-{workload}",
            "assignmentID": assignment or f"as-{workload}",
            "ownerID": f"owner-{workload}",
            "exclusive": exclusive,
            "hostRequest": "1Gi",
            **unknown,
        }
    )


def ref(workload: str, *, uid: str = "", assignment: str = "") -> SeatRef:
    return SeatRef(workload, uid or f"uid-{workload}", assignment or f"as-{workload}")


def ledger(*seats: Seat, uid: str = LEDGER_UID, version: str = "1", deleted: bool = False) -> ClaimLedger:
    return ClaimLedger(
        metadata=LedgerMeta(
            name=LEDGER,
            namespace="openrl-system",
            uid=uid,
            resource_version=version,
            deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
        ),
        spec=LedgerSpec(claim_name=CLAIM, seats=seats),
    )


def seat_request(workload: str, *, limit: int = 256, exclusive: bool = False, **more: Any) -> SeatRequest:
    return SeatRequest(
        workload=workload,
        workload_uid=more.pop("uid", f"uid-{workload}"),
        owner_id=f"owner-{workload}",
        exclusive=exclusive,
        host_request="2Gi",
        seat_limit=limit,
        **more,
    )


def pod(workload: str, *, exclusive: bool = False, created_at: str = "") -> LivePod:
    return LivePod(workload, f"uid-{workload}", exclusive, created_at)


def names(seats: tuple[Seat, ...]) -> list[str]:
    return [each.workload for each in seats]
