"""The order of writes (contract §4): seat, status, Pod on setup; Pod, status, seat on teardown.

A wrong order violates contract §8.3 or contract §8.4 only if a crash falls between the steps; this check
finds it without the crash. It also finds a process that commits a seat that another process booked. Like
`simulation.checks.invariants`, it reads only the server's objects. Seats that somebody removed manually are
exempt by assignment ID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from informers.api import WatchEventType
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import LEDGERS, PODS, WORKLOADS
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Change
from simulation.checks.invariants import seats_of
from simulation.checks.pod_facts import TERMINAL, assignment_of_pod, has_ended, owner_uid

LATE_CREATION_SECONDS = 120.0
"""How long a Pod creation may be in flight from a process that did not see the terminal status."""


class WriteOrderChecker:
    """Checks the order of all writes of one server (contract §8.3, contract §8.4 and contract §8.9).

    `is_external` returns whether the current write may break the rules; `writer` returns the process that
    sent it, empty if no process did.
    """

    def __init__(
        self,
        server: ApiServer,
        now: Callable[[], float],
        is_external: Callable[[], bool],
        writer: Callable[[], str],
    ) -> None:
        self._server = server
        self._now = now
        self._is_external = is_external
        self._writer = writer
        self.violations: list[str] = []
        # Assignments with a manually removed seat, or with a Pod at any time: a repair may name them.
        self._exempt: set[str] = set()
        # The process that booked an assignment that no status has named yet, by assignment ID.
        self._booked_by: dict[str, str] = {}
        self._created: dict[str, float] = {}
        # UIDs of Workloads with a Pod that ended by itself.
        self._ended: set[str] = set()
        server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<WriteOrderChecker violations={len(self.violations)}>"

    def _on_change(self, change: Change) -> None:
        if change.kind is PODS:
            self._record_pod(change)
        elif change.kind is LEDGERS:
            self._record_bookings(change)
            self._report(change, self._seat_violations(change))
        elif change.kind is WORKLOADS and change.type is not WatchEventType.DELETED:
            self._report(change, self._status_violations(change.before, change.record))

    def _report(self, change: Change, violations: Iterator[str]) -> None:
        self.violations += [f"at revision {change.revision}: {text}" for text in violations]

    def _record_pod(self, change: Change) -> None:
        pod = change.record.document
        if change.type is WatchEventType.ADDED:
            self._exempt.add(str(assignment_of_pod(pod)[1]))
            self._created[change.record.uid] = self._now()
        if has_ended(pod) and not change.record.deleting and _ended_by_itself(pod):
            self._ended.add(owner_uid(pod))

    def _record_bookings(self, change: Change) -> None:
        before = {seat["assignmentID"] for seat in seats_of(change.before)}
        for seat in seats_of(change.record):
            if seat["assignmentID"] not in before and self._writer():
                self._booked_by[seat["assignmentID"]] = self._writer()

    # Teardown: no seat is released while its Workload's status names it.

    def _seat_violations(self, change: Change) -> Iterator[str]:
        claim = change.record.document["spec"]["claimName"]
        gone = change.type is WatchEventType.DELETED
        kept = set() if gone else {seat["workloadUID"] for seat in seats_of(change.record)}
        lost = [seat for seat in seats_of(change.before) if seat["workloadUID"] not in kept]
        if self._is_external():
            self._exempt |= {seat["assignmentID"] for seat in seats_of(change.before)}
            return
        workloads = {record.uid: record for record in self._server.store.all(WORKLOADS)}
        for seat in lost:
            workload = workloads.get(seat["workloadUID"])
            if workload is None or workload.deleting or _status(workload).get("phase") in TERMINAL:
                continue
            if _assignment(workload) == (claim, seat["assignmentID"]):
                yield f"{seat['workload']} lost the seat on {claim} that its status names"

    # Setup: no status names a seat that does not exist. A terminal Workload has no Pod that may still start.

    def _status_violations(self, before: Record | None, after: Record) -> Iterator[str]:
        name, uid = after.key.name, after.uid
        claim, assignment = _assignment(after)
        if claim and (before is None or _assignment(before) != (claim, assignment)):
            # The assignment ID may differ: a second process may have adopted the seat just before.
            uids_with_seat = {
                seat["workloadUID"]
                for ledger in self._server.store.all(LEDGERS)
                if ledger.document["spec"]["claimName"] == claim
                for seat in seats_of(ledger)
            }
            if uid not in uids_with_seat and assignment not in self._exempt:
                yield f"the status of {name} names {claim}, where it has no seat"
            yield from self._foreign_booking(name, assignment)
        phase = _status(after).get("phase")
        if phase not in TERMINAL or before is None or _status(before).get("phase") in TERMINAL:
            return
        for pod in self._server.store.all(PODS):
            old = self._now() - self._created.get(pod.uid, 0.0) > LATE_CREATION_SECONDS
            if owner_uid(pod.document) == uid and old and not pod.deleting and not has_ended(pod.document):
                yield f"{name} is {phase}, and its Pod may still start"
        outcome = phase == "Succeeded" or str(_status(after).get("reason", "")).startswith("PodFailed")
        if outcome and uid not in self._ended:
            yield f"{name} is {phase}, and its process never ended by itself"

    def _foreign_booking(self, name: str, assignment: str) -> Iterator[str]:
        """Check that the committing process booked the seat; another process may still release it."""
        booked_by, writer = self._booked_by.pop(assignment, ""), self._writer()
        if booked_by and writer and booked_by != writer and assignment not in self._exempt:
            yield f"{writer} commits {name} to the seat that {booked_by} booked"


def _ended_by_itself(pod: Document) -> bool:
    """Return whether a Pod in a final phase ended by itself: not disrupted, and a container had run."""
    status = pod["status"]
    disrupted = any(
        (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
        for condition in status.get("conditions") or ()
    )
    return not disrupted and any(
        "terminated" in (container.get("state") or {}) for container in status.get("containerStatuses") or ()
    )


def _status(record: Record) -> Document:
    return record.document.get("status") or {}


def _assignment(record: Record) -> tuple[str, str]:
    status = _status(record)
    return str(status.get("claimName") or ""), str(status.get("assignmentID") or "")
