"""The invariants of contract §8, checked on a settled cluster. Each violation is one sentence.

The checks use the API server only, so that they hold for any number of running or crashed controllers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from e2e.controlplane import Object
from e2e.harness.workloads import WORKLOADS, WorkloadClient

SETTLE_SECONDS = 45
TERMINAL = {"Succeeded", "Failed"}


def violations(openrl: WorkloadClient, *, limit: int) -> list[str]:
    """Return all violations of the invariants in a settled cluster (contract §8)."""
    workloads = openrl.api.items(WORKLOADS)
    ledgers, claims, pods = openrl.ledgers(), openrl.claims(), openrl.pods()
    return [
        *_ledgers(ledgers, claims, limit),
        *_seats(workloads, ledgers),
        *_pods(workloads, ledgers, pods),
        *_claims(ledgers, claims),
    ]


def _ledgers(ledgers: list[Object], claims: list[Object], limit: int) -> Iterator[str]:
    named = {claim["metadata"]["name"] for claim in claims}
    for ledger in ledgers:
        name, seats = ledger["metadata"]["name"], ledger["spec"].get("seats", [])
        if limit and len(seats) > limit:
            yield f"{name} has {len(seats)} seats at a limit of {limit}"
        if not seats:
            yield f"{name} is empty"
        if ledger["spec"]["claimName"] not in named:
            yield f"{name} has no claim"
        if len(seats) > 1 and any(seat.get("exclusive") for seat in seats):
            yield f"an exclusive worker shares {name}"


def _seats(workloads: list[Object], ledgers: list[Object]) -> Iterator[str]:
    uids = {w["metadata"]["uid"]: w for w in workloads}
    held = Counter(seat["workloadUID"] for ledger in ledgers for seat in ledger["spec"].get("seats", []))
    for uid, count in held.items():
        name = uids[uid]["metadata"]["name"] if uid in uids else uid
        if count > 1:
            yield f"{name} holds {count} seats"
        if uid not in uids:
            yield f"a seat refers to the deleted Workload {uid}"
        elif uids[uid].get("status", {}).get("phase") in TERMINAL:
            yield f"{name} has ended but holds a seat"


def _pods(workloads: list[Object], ledgers: list[Object], pods: list[Object]) -> Iterator[str]:
    by_uid = {w["metadata"]["uid"]: w for w in workloads}
    owners = Counter(pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods)
    yield from (f"Workload {uid} has {count} Pods" for uid, count in owners.items() if count > 1)
    for pod in pods:
        name, uid = pod["metadata"]["name"], pod["metadata"]["ownerReferences"][0]["uid"]
        if uid not in by_uid:
            yield f"Pod {name} has no Workload"
            continue
        if pod["status"].get("phase") in TERMINAL:
            continue
        status = by_uid[uid].get("status", {})
        assignment = _assignment_of(pod)
        recorded = (status.get("claimName"), status.get("assignmentID"))
        seats = {
            (ledger["spec"]["claimName"], seat["assignmentID"])
            for ledger in ledgers
            for seat in ledger["spec"].get("seats", [])
            if seat["workloadUID"] == uid
        }
        if assignment != recorded or seats != {recorded}:
            yield f"Pod {name} has {assignment}, its status {recorded}, ledgers {sorted(seats)}"


def _assignment_of(pod: Object) -> tuple[Any, Any]:
    env = {e["name"]: e.get("value") for c in pod["spec"]["containers"] for e in c.get("env", [])}
    return (pod["spec"]["resourceClaims"][0]["resourceClaimName"], env.get("OPEN_RL_ASSIGNMENT_ID"))


def _claims(ledgers: list[Object], claims: list[Object]) -> Iterator[str]:
    uids = {ledger["metadata"]["uid"] for ledger in ledgers}
    for claim in claims:
        owners = {owner["uid"] for owner in claim["metadata"].get("ownerReferences", [])}
        if not owners & uids:
            yield f"{claim['metadata']['name']} has no ledger"
        if "deletionTimestamp" in claim["metadata"]:
            yield f"{claim['metadata']['name']} is still terminating"


def await_settled(openrl: WorkloadClient, *, limit: int, running: int, waiting: int) -> None:
    """Wait until this many workers run and wait, and no invariant is violated. Raises with the violations."""
    seen: list[str] = []

    def settled() -> bool:
        phases = Counter(status.get("phase", "none") for status in openrl.statuses().values())
        seen[:] = violations(openrl, limit=limit)
        if (phases["Running"], phases["Pending"]) != (running, waiting):
            seen.append(f"phases {dict(phases)}, expected {running} Running and {waiting} Pending")
        return not seen

    try:
        openrl.await_that(settled, "the cluster does not settle", timeout_seconds=SETTLE_SECONDS)
    except Exception as error:
        raise AssertionError("\n".join(seen)) from error
