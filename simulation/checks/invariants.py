"""The invariants (contract §8) as checks on a simulated cluster. Each violation is one sentence.

`InvariantChecker` checks every write, whoever sends it. `violations_at_rest` checks the state of a settled
cluster. Both read only the server's objects and share no logic with the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from informers.api import WatchEventType
from ledger.claim_names import own_claim_name
from placement.quantity import parse_bytes
from simulation.actors.fitting import request_of
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, LEDGERS, NODES, PODS, WORKLOADS
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Change
from simulation.checks.attempts import attempt_violations
from simulation.checks.idle_capacity import IdleCapacity
from simulation.checks.pod_facts import TERMINAL, assignment_of_pod, claim_names, has_ended, owner_uid
from simulation.cluster.simulated_cluster import SimulatedCluster


class InvariantChecker:
    """Checks every write of one cluster on its own. `limit` 0 is no limit.

    A test that breaks the rules on purpose does so inside `suspended()`. If the server completes such a
    deletion later, `exempt` the object. `is_late_write` returns whether the current write takes effect long
    after its sender got an error.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        limit: int | Callable[[], int] = 0,
        is_late_write: Callable[[], bool] = lambda: False,
    ) -> None:
        self._server = cluster.server
        self._limit_of = limit if callable(limit) else lambda: limit
        self._is_late_write = is_late_write
        # Assignment IDs and Pod UIDs that a late write added for a Workload under deletion. The controller
        # cannot know of them, whatever it read before.
        self._late: set[str] = set()
        self._suspended = False
        self._exempt_uids: set[str] = set()
        # The revision at which a Workload became terminal, and a Pod was created. Both by UID.
        self._ended: dict[str, int] = {}
        self._created: dict[str, int] = {}
        self.violations: list[str] = []
        cluster.server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<InvariantChecker limit={self._limit_of()} violations={len(self.violations)}>"

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Ignore the writes of the block: an external actor breaks rules on purpose."""
        self._suspended = True
        try:
            yield
        finally:
            self._suspended = False

    @property
    def is_suspended(self) -> bool:
        """Whether the current write may break the rules."""
        return self._suspended

    def exempt(self, uid: str) -> None:
        """Do not check the deletion of this object: somebody deleted it on purpose."""
        self._exempt_uids.add(uid)

    def _on_change(self, change: Change) -> None:
        if self._is_late_write():
            self._late |= self._added_late(change)
        if change.kind is WORKLOADS and _phase(change.record) in TERMINAL:
            self._ended.setdefault(change.record.uid, change.revision)
        elif change.kind is PODS and change.type is WatchEventType.ADDED:
            self._created[change.record.uid] = change.revision
        if not self._suspended:
            self.violations += [
                f"at revision {change.revision}: {text}" for text in self._violations_of(change)
            ]

    def _added_late(self, change: Change) -> set[str]:
        """Return the Pod UIDs and assignment IDs that a late write adds for Workloads under deletion."""
        deleting = {record.uid for record in self._server.store.all(WORKLOADS) if record.deleting}
        if change.kind is PODS and change.type is WatchEventType.ADDED:
            return {change.record.uid} if owner_uid(change.record.document) in deleting else set()
        if change.kind is not LEDGERS:
            return set()
        before = {seat["assignmentID"] for seat in seats_of(change.before)}
        return {
            seat["assignmentID"]
            for seat in seats_of(change.record)
            if seat["assignmentID"] not in before and seat["workloadUID"] in deleting
        }

    def _violations_of(self, change: Change) -> Iterator[str]:
        if change.kind is LEDGERS:
            yield from self._ledger_violations(change)
        elif change.kind is WORKLOADS:
            yield from self._workload_violations(change)
        elif change.kind is PODS and change.type is WatchEventType.ADDED:
            yield from self._pod_violations(change)
        elif change.kind is CLAIMS:
            yield from self._claim_violations(change)

    def _ledger_violations(self, change: Change) -> Iterator[str]:
        """Check the limit (contract §8.1), early release (contract §8.4), exclusiveness (contract §8.5)."""
        name = change.record.key.name
        before = seats_of(change.before)
        gone = change.type is WatchEventType.DELETED
        after = [] if gone else seats_of(change.record)
        if gone and before:
            yield f"{name} was deleted with {len(before)} seats"
        # Compare by name: a Workload that replaces its predecessor of the same name adds no seat.
        added = {seat["workload"] for seat in after} - {seat["workload"] for seat in before}
        limit = self._limit_of() if added else 0
        if limit and len(after) > limit:
            yield f"{name} has {len(after)} seats; the limit is {limit}"
        if added and len(after) > 1 and any(seat.get("exclusive") for seat in after):
            yield f"an exclusive worker shares {name}"
        kept = {seat["workloadUID"] for seat in after}
        claim = change.record.document["spec"]["claimName"]
        for seat in before:
            if seat["workloadUID"] not in kept and self._may_run_on(seat["workloadUID"], claim):
                yield f"{seat['workload']} lost its seat on {claim} while its Pod may still run"

    def _workload_violations(self, change: Change) -> Iterator[str]:
        """Check that terminal is final (contract §8.9) and a deletion leaves nothing (contract §8.6)."""
        name, uid = change.record.key.name, change.record.uid
        before = _phase(change.before) if change.before is not None else ""
        if change.type is WatchEventType.DELETED:
            # An unrecorded seat on another claim is released by the sweep: no cache need show it yet.
            known = {
                change.record.document.get("status", {}).get("claimName"),
                own_claim_name(name, uid),
            }
            left = [
                seat
                for claim, seat in all_seats(self._server)
                if seat["workloadUID"] == uid and claim in known and seat["assignmentID"] not in self._late
            ]
            if left:
                yield f"{name} was deleted and left a seat"
            pods = [pod for pod in self._server.store.all(PODS) if owner_uid(pod.document) == uid]
            if any(pod.uid not in self._late for pod in pods):
                yield f"{name} was deleted and left a Pod"
            return
        yield from _status_violations(change)
        if before in TERMINAL and _phase(change.record) != before:
            yield f"{name} changed from {before}, which is terminal, to {_phase(change.record)}"

    def _pod_violations(self, change: Change) -> Iterator[str]:
        """Check that a Workload never has two Pods (contract §8.2)."""
        uid = owner_uid(change.record.document)
        pods = [pod for pod in self._server.store.all(PODS) if uid and owner_uid(pod.document) == uid]
        if len(pods) > 1:
            yield f"Workload {uid} has {len(pods)} Pods"

    def _claim_violations(self, change: Change) -> Iterator[str]:
        """Check that a claim is deleted after its ledger (contract §4)."""
        uid, before = change.record.uid, change.before
        owners = {owner["uid"] for owner in change.record.metadata.get("ownerReferences") or ()}
        owned = any(ledger.uid in owners for ledger in self._server.store.all(LEDGERS))
        begins = change.record.deleting and before is not None and not before.deleting
        ends = change.type is WatchEventType.DELETED
        if (begins or ends) and owned and uid not in self._exempt_uids:
            yield f"{change.record.key.name} was deleted before its ledger"
        if begins:
            # Only the start of the deletion counts: later the ledger may be deleted or recreated.
            self._exempt_uids.add(uid)

    def _may_run_on(self, uid: str, claim: str) -> bool:
        """Return whether a Pod of a Workload may still run on a claim.

        A Pod that was created after its Workload became terminal does not count: it is deleted at once, and
        may be without a seat for that instant (contract §8.9).
        """
        return any(
            owner_uid(pod.document) == uid
            and not has_ended(pod.document)
            and claim in claim_names(pod.document)
            and not 0 < self._ended.get(uid, 0) < self._created.get(pod.uid, 0)
            for pod in self._server.store.all(PODS)
        )


def _status_violations(change: Change) -> Iterator[str]:
    """Check the API conventions of a status: observed generation and transition times."""
    name, status = change.record.key.name, _status(change.record.document)
    generation = change.record.metadata.get("generation", 0)
    if status.get("observedGeneration", 0) > generation:
        yield f"{name} has observedGeneration {status['observedGeneration']} at generation {generation}"
    before = _status(change.before.document) if change.before is not None else {}
    known = {item["type"]: item for item in before.get("conditions") or ()}
    for item in status.get("conditions") or ():
        old = known.get(item["type"])
        same = old is not None and old["status"] == item["status"]
        if old is not None and same and old["lastTransitionTime"] != item["lastTransitionTime"]:
            yield f"{name} changed the transition time of condition {item['type']} without its status"


def violations_at_rest(cluster: SimulatedCluster, *, limit: int = 0, lowered: bool = False) -> list[str]:
    """Return the violations of the invariants (contract §8) in a settled cluster.

    With `lowered`, ledgers may have more seats than the limit.
    """
    workloads = cluster.server.documents(WORKLOADS, cluster.workloads.namespace)
    ledgers, claims, pods = cluster.workloads.ledgers(), cluster.workloads.claims(), cluster.workloads.pods()
    return [
        *_ledger_violations(ledgers, claims, 0 if lowered else limit),
        *_seat_violations(workloads, ledgers),
        *_pod_violations(workloads, ledgers, pods),
        *_claim_violations(ledgers, claims, pods),
        *_host_memory_violations(cluster, ledgers, claims),
        *IdleCapacity(cluster.server, cluster.workloads.namespace, limit).violations(),
        *attempt_violations(cluster.server, cluster.workloads.namespace),
    ]


def _ledger_violations(ledgers: list[Document], claims: list[Document], limit: int) -> Iterator[str]:
    """Check the limit (contract §8.1), exclusiveness (contract §8.5), orphans (contract §8.6)."""
    named = {claim["metadata"]["name"] for claim in claims}
    for ledger in ledgers:
        name, seats = ledger["metadata"]["name"], ledger["spec"].get("seats") or []
        if limit and len(seats) > limit:
            yield f"{name} has {len(seats)} seats; the limit is {limit}"
        if not seats:
            yield f"{name} has no seats"
        if ledger["spec"]["claimName"] not in named:
            yield f"{name} has no claim"
        if len(seats) > 1 and any(seat.get("exclusive") for seat in seats):
            yield f"an exclusive worker shares {name}"


def _seat_violations(workloads: list[Document], ledgers: list[Document]) -> Iterator[str]:
    """Check seats: one per Workload (contract §8.2), none without a Workload (contract §8.6)."""
    by_uid = {workload["metadata"]["uid"]: workload for workload in workloads}
    held = Counter(seat["workloadUID"] for ledger in ledgers for seat in ledger["spec"].get("seats") or ())
    for uid, count in held.items():
        name = by_uid[uid]["metadata"]["name"] if uid in by_uid else uid
        if count > 1:
            yield f"{name} holds {count} seats"
        if uid not in by_uid:
            yield f"a seat names Workload {uid}, which does not exist"
        elif _status(by_uid[uid]).get("phase") in TERMINAL:
            yield f"{name} is terminal and holds a seat"


def _pod_violations(
    workloads: list[Document], ledgers: list[Document], pods: list[Document]
) -> Iterator[str]:
    """Check that Pod, status and seat agree on the assignment (contract §8.3).

    Also, a Pod that has not ended has its seat (contract §8.2), and its Workload is not terminal
    (contract §8.9).
    """
    by_uid = {workload["metadata"]["uid"]: workload for workload in workloads}
    for pod in pods:
        name, uid = pod["metadata"]["name"], owner_uid(pod)
        if not uid:
            continue
        if uid not in by_uid:
            yield f"Pod {name} has no Workload"
            continue
        if has_ended(pod):
            continue
        status = _status(by_uid[uid])
        recorded = (status.get("claimName"), status.get("assignmentID"))
        seats = {
            (ledger["spec"]["claimName"], seat["assignmentID"])
            for ledger in ledgers
            for seat in ledger["spec"].get("seats") or ()
            if seat["workloadUID"] == uid
        }
        if assignment_of_pod(pod) != recorded or seats != {recorded}:
            yield (
                f"assignments disagree: Pod {name} has {assignment_of_pod(pod)}, "
                f"its status {recorded}, the ledgers {sorted(seats)}"
            )
        if status.get("phase") in TERMINAL:
            yield f"Pod {name} runs although its Workload is terminal"


def _claim_violations(ledgers: list[Document], claims: list[Document], pods: list[Document]) -> Iterator[str]:
    """Check that every claim has a ledger (contract §8.6)."""
    used = {name for pod in pods if not has_ended(pod) for name in claim_names(pod)}
    uids = {ledger["metadata"]["uid"] for ledger in ledgers}
    for claim in claims:
        owners = {owner["uid"] for owner in claim["metadata"].get("ownerReferences") or ()}
        if not owners & uids:
            yield f"{claim['metadata']['name']} has no ledger"
        # A manually deleted claim stays until the Pods on it have ended.
        if "deletionTimestamp" in claim["metadata"] and claim["metadata"]["name"] not in used:
            yield f"{claim['metadata']['name']} is still terminating"


def _host_memory_violations(
    cluster: SimulatedCluster, ledgers: list[Document], claims: list[Document]
) -> Iterator[str]:
    """Check the memory requests of seats against each node (contract §8.7); foreign Pods do not count.

    A worker's Pod counts in place of its seat: admission may have changed what an earlier Pod requested.
    """
    nodes = {claim["metadata"]["name"]: node_of(claim) for claim in claims}
    requests = {
        owner_uid(pod.document): request_of(pod).memory_bytes or 0
        for pod in cluster.server.store.all(PODS, cluster.workloads.namespace)
        if not has_ended(pod.document)
    }
    booked: Counter[str] = Counter()
    for ledger in ledgers:
        node = nodes.get(ledger["spec"]["claimName"], "")
        seats = ledger["spec"].get("seats") or ()
        booked[node] += sum(
            requests.get(seat["workloadUID"], parse_bytes(seat.get("hostRequest") or "0")) for seat in seats
        )
    for record in cluster.server.store.all(NODES):
        allocatable = parse_bytes(_status(record.document).get("allocatable", {}).get("memory", "0"))
        if booked[record.key.name] > allocatable:
            yield f"{booked[record.key.name]} bytes are booked on {record.key.name}, which has {allocatable}"


# Helpers, also for tests.


def seats_of(ledger: Record | None) -> list[Document]:
    """Return the seats of one version of a ledger."""
    return [] if ledger is None else list(ledger.document["spec"].get("seats") or ())


def all_seats(server: ApiServer) -> list[tuple[str, Document]]:
    """Return every seat as (claim, seat)."""
    return [
        (ledger.document["spec"]["claimName"], seat)
        for ledger in server.store.all(LEDGERS)
        for seat in seats_of(ledger)
    ]


def node_of(claim: Document) -> str:
    """Return the node that a claim is allocated to, empty if it is unallocated."""
    allocation = _status(claim).get("allocation") or {}
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def _status(document: Document) -> Document:
    return document.get("status") or {}


def _phase(record: Record) -> str:
    return str(_status(record.document).get("phase", ""))
