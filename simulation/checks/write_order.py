"""The order of steps as a check on every write: seat, status, Pod up; Pod, status, seat down (contract §4).

Where a run ends well although steps came in the wrong order, a crash at the wrong moment would have told;
this tells without it. So it does where one process commits a seat that another one booked. Like
`simulation.checks.invariants` it reads the server only. What somebody took away by hand is excused by its
assignment ID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from informers.api import WatchEventType
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import LEDGERS, PODS, WORKLOADS
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Change
from simulation.checks.invariants import TERMINAL, has_ended, owner_uid, seats_of, stamp_of

CREATION_LATE_SECONDS = 120.0
"""So long a Pod's creation may be on its way from a process that did not know that its worker had ended."""


class WriteOrderChecker:
    """Checks each write of one server.

    `by_hand` tells whether the present write is somebody's who may break the rules, `writer` which process
    sent it, empty if none did.
    """

    def __init__(
        self,
        server: ApiServer,
        now: Callable[[], float],
        by_hand: Callable[[], bool],
        writer: Callable[[], str],
    ) -> None:
        self._server = server
        self._now = now
        self._by_hand = by_hand
        self._writer = writer
        self.violations: list[str] = []
        # Assignments that lost their seat by hand, or that a Pod was once made for: a repair may name them.
        self._excused: set[str] = set()
        # Who booked an assignment that no status has named yet, by its ID.
        self._booked_by: dict[str, str] = {}
        self._created: dict[str, float] = {}
        # Workloads of which a Pod has ended by itself.
        self._ended: set[str] = set()
        server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<OrderWatch violations={len(self.violations)}>"

    def _on_change(self, change: Change) -> None:
        if change.kind is PODS:
            self._note_pod(change)
        elif change.kind is LEDGERS:
            self._note_bookings(change)
            self._judge(change, self._seat_faults(change))
        elif change.kind is WORKLOADS and change.type is not WatchEventType.DELETED:
            self._judge(change, self._status_faults(change.before, change.record))

    def _judge(self, change: Change, faults: Iterator[str]) -> None:
        self.violations += [f"at revision {change.revision}: {text}" for text in faults]

    def _note_pod(self, change: Change) -> None:
        pod = change.record.document
        if change.type is WatchEventType.ADDED:
            self._excused.add(str(stamp_of(pod)[1]))
            self._created[change.record.uid] = self._now()
        if has_ended(pod) and not change.record.deleting and _ran(pod):
            self._ended.add(owner_uid(pod))

    def _note_bookings(self, change: Change) -> None:
        before = {seat["assignmentID"] for seat in seats_of(change.before)}
        for seat in seats_of(change.record):
            if seat["assignmentID"] not in before and self._writer():
                self._booked_by[seat["assignmentID"]] = self._writer()

    # Down: no seat goes while its worker's status names it.

    def _seat_faults(self, change: Change) -> Iterator[str]:
        claim = change.record.document["spec"]["claimName"]
        gone = change.type is WatchEventType.DELETED
        kept = set() if gone else {seat["workloadUID"] for seat in seats_of(change.record)}
        lost = [seat for seat in seats_of(change.before) if seat["workloadUID"] not in kept]
        if self._by_hand():
            self._excused |= {seat["assignmentID"] for seat in seats_of(change.before)}
            return
        workloads = {record.uid: record for record in self._server.store.all(WORKLOADS)}
        for seat in lost:
            workload = workloads.get(seat["workloadUID"])
            if workload is None or workload.deleting or _status(workload).get("phase") in TERMINAL:
                continue
            if _assignment(workload) == (claim, seat["assignmentID"]):
                yield f"{seat['workload']} lost the seat on {claim} that its status names"

    # Up: no status names what no ledger holds. And what has ended has no Pod to come.

    def _status_faults(self, before: Record | None, after: Record) -> Iterator[str]:
        name, uid = after.key.name, after.uid
        claim, assignment = _assignment(after)
        if claim and (before is None or _assignment(before) != (claim, assignment)):
            # Under another assignment is enough: a second process may have adopted the seat just before.
            seated = {
                seat["workloadUID"]
                for ledger in self._server.store.all(LEDGERS)
                if ledger.document["spec"]["claimName"] == claim
                for seat in seats_of(ledger)
            }
            if uid not in seated and assignment not in self._excused:
                yield f"{name} says that it is on {claim}, where it has no seat"
            yield from self._foreign_booking(name, assignment)
        phase = _status(after).get("phase")
        if phase not in TERMINAL or before is None or _status(before).get("phase") in TERMINAL:
            return
        for pod in self._server.store.all(PODS):
            old = self._now() - self._created.get(pod.uid, 0.0) > CREATION_LATE_SECONDS
            if owner_uid(pod.document) == uid and old and not pod.deleting and not has_ended(pod.document):
                yield f"{name} is {phase}, and its Pod may start yet"
        outcome = phase == "Succeeded" or str(_status(after).get("reason", "")).startswith("PodFailed")
        if outcome and uid not in self._ended:
            yield f"{name} is {phase}, and its process never ended by itself"

    def _foreign_booking(self, name: str, assignment: str) -> Iterator[str]:
        """Who booked it may give it back yet: he cannot know that another one commits it."""
        booked_by, writer = self._booked_by.pop(assignment, ""), self._writer()
        if booked_by and writer and booked_by != writer and assignment not in self._excused:
            yield f"{writer} commits {name} to the seat that {booked_by} booked"


def _ran(pod: Document) -> bool:
    """Whether a Pod in a final phase ended by itself: not disrupted, and after a container had run."""
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
