"""The invariants (contract §8) as checks on a simulated cluster; each violation is one sentence.

`InvariantChecker` checks every write, whoever sends it. `violations_at_rest` checks the state of a settled
cluster. Both read the server only, in their own words:
nothing of the controller's own judgement is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from informers.api import WatchEventType
from ledger.names import own_claim_name
from placement.quantity import parse_bytes
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, LEDGERS, NODES, PODS, WORKLOADS
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Change
from simulation.checks.idle_capacity import IdleCapacity
from simulation.cluster.simulated import SimulatedCluster

TERMINAL = ("Succeeded", "Failed")


class InvariantChecker:
    """Checks each write of one cluster as it is made. `limit` 0 is no limit.

    A test that breaks the rules by hand (takes a seat away, say) does so in a `with invariants` block; where
    the server carries it out later, the object is excused by its UID. `lands_late` says whether the present
    write is one whose sender was told long ago that it had failed.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        limit: int | Callable[[], int] = 0,
        lands_late: Callable[[], bool] = lambda: False,
    ) -> None:
        self._server = cluster.server
        self._limit_of = limit if callable(limit) else lambda: limit
        self._lands_late = lands_late
        # Assignments and UIDs of Pods that came late to workers who were leaving already: nobody can know of
        # those, whatever was read before.
        self._late: set[str] = set()
        self._suspended = False
        self._exempt_uids: set[str] = set()
        # Revisions: when a Workload ended, and when a Pod was made. Both by UID.
        self._ended: dict[str, int] = {}
        self._made: dict[str, int] = {}
        self.violations: list[str] = []
        cluster.server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<Watchdog limit={self._limit_of()} violations={len(self.violations)}>"

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
        """Whether the present write is a hand's that may break the rules."""
        return self._suspended

    def exempt(self, uid: str) -> None:
        """Say nothing of this object's end: somebody asked for it by hand."""
        self._exempt_uids.add(uid)

    def _on_change(self, change: Change) -> None:
        if self._lands_late():
            self._late |= self._come_late(change)
        if change.kind is WORKLOADS and _phase(change.record) in TERMINAL:
            self._ended.setdefault(change.record.uid, change.revision)
        elif change.kind is PODS and change.type is WatchEventType.ADDED:
            self._made[change.record.uid] = change.revision
        if not self._suspended:
            self.violations += [f"at revision {change.revision}: {text}" for text in self._faults(change)]

    def _come_late(self, change: Change) -> set[str]:
        leaving = {record.uid for record in self._server.store.all(WORKLOADS) if record.deleting}
        if change.kind is PODS and change.type is WatchEventType.ADDED:
            return {change.record.uid} if owner_uid(change.record.document) in leaving else set()
        if change.kind is not LEDGERS:
            return set()
        before = {seat["assignmentID"] for seat in seats_of(change.before)}
        return {
            seat["assignmentID"]
            for seat in seats_of(change.record)
            if seat["assignmentID"] not in before and seat["workloadUID"] in leaving
        }

    def _faults(self, change: Change) -> Iterator[str]:
        if change.kind is LEDGERS:
            yield from self._ledger_faults(change)
        elif change.kind is WORKLOADS:
            yield from self._workload_faults(change)
        elif change.kind is PODS and change.type is WatchEventType.ADDED:
            yield from self._pod_faults(change)
        elif change.kind is CLAIMS:
            yield from self._claim_faults(change)

    def _ledger_faults(self, change: Change) -> Iterator[str]:
        """Violations of contract §8.1, contract §8.4 and contract §8.5 by one ledger write."""
        name = change.record.key.name
        before = seats_of(change.before)
        gone = change.type is WatchEventType.DELETED
        after = [] if gone else seats_of(change.record)
        if gone and before:
            yield f"{name} was deleted with {len(before)} seats"
        # One of the same name takes its predecessor's seat; one that comes while another goes is added.
        added = {seat["workload"] for seat in after} - {seat["workload"] for seat in before}
        limit = self._limit_of() if added else 0
        if limit and len(after) > limit:
            yield f"{name} has {len(after)} seats, the limit is {limit}"
        if added and len(after) > 1 and any(seat.get("exclusive") for seat in after):
            yield f"an exclusive worker shares {name}"
        kept = {seat["workloadUID"] for seat in after}
        claim = change.record.document["spec"]["claimName"]
        for seat in before:
            if seat["workloadUID"] not in kept and self._runs_on(seat["workloadUID"], claim):
                yield f"{seat['workload']} lost its seat on {claim} while its Pod may run"

    def _workload_faults(self, change: Change) -> Iterator[str]:
        """Violations of contract §8.9 by one Workload write, and objects left behind by a deletion."""
        name, uid = change.record.key.name, change.record.uid
        before = _phase(change.before) if change.before is not None else ""
        if change.type is WatchEventType.DELETED:
            # One on a claim of others that no status names is the sweep's: no cache need show it yet.
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
                yield f"{name} went and left a seat"
            pods = [pod for pod in self._server.store.all(PODS) if owner_uid(pod.document) == uid]
            if any(pod.uid not in self._late for pod in pods):
                yield f"{name} went and left a Pod"
            return
        yield from _status_faults(change)
        if before in TERMINAL and _phase(change.record) != before:
            yield f"{name} was {before} and is {_phase(change.record)} again"

    def _pod_faults(self, change: Change) -> Iterator[str]:
        """Violations of contract §8.2 by a Pod creation."""
        uid = owner_uid(change.record.document)
        pods = [pod for pod in self._server.store.all(PODS) if uid and owner_uid(pod.document) == uid]
        if len(pods) > 1:
            yield f"Workload {uid} has {len(pods)} Pods"

    def _claim_faults(self, change: Change) -> Iterator[str]:
        uid, before = change.record.uid, change.before
        owners = {owner["uid"] for owner in change.record.metadata.get("ownerReferences") or ()}
        owned = any(ledger.uid in owners for ledger in self._server.store.all(LEDGERS))
        begins = change.record.deleting and before is not None and not before.deleting
        ends = change.type is WatchEventType.DELETED
        if (begins or ends) and owned and uid not in self._exempt_uids:
            yield f"{change.record.key.name} went before its ledger"
        if begins:
            # Judged by how it began: while it ends, its ledger may go, or a repair may make one again.
            self._exempt_uids.add(uid)

    def _runs_on(self, uid: str, claim: str) -> bool:
        """Whether a Pod of a worker may run on a claim.

        One that was made after its worker had ended does not count: it is deleted at once, and may for that
        instant be without a seat (contract §8.9).
        """
        return any(
            owner_uid(pod.document) == uid
            and not has_ended(pod.document)
            and claim in claim_names(pod.document)
            and not 0 < self._ended.get(uid, 0) < self._made.get(pod.uid, 0)
            for pod in self._server.store.all(PODS)
        )


def _status_faults(change: Change) -> Iterator[str]:
    """What the conventions of the API ask of a status: generations, and times that mean something."""
    name, status = change.record.key.name, _status(change.record.document)
    generation = change.record.metadata.get("generation", 0)
    if status.get("observedGeneration", 0) > generation:
        yield f"{name} observed generation {status['observedGeneration']} of {generation}"
    before = _status(change.before.document) if change.before is not None else {}
    known = {item["type"]: item for item in before.get("conditions") or ()}
    for item in status.get("conditions") or ():
        old = known.get(item["type"])
        same = old is not None and old["status"] == item["status"]
        if old is not None and same and old["lastTransitionTime"] != item["lastTransitionTime"]:
            yield f"the time of {name}'s condition {item['type']} moved, and its status did not"


def violations_at_rest(cluster: SimulatedCluster, *, limit: int = 0, lowered: bool = False) -> list[str]:
    """Everything that a settled cluster must not show. Ledgers may be above a limit that was `lowered`."""
    workloads = cluster.server.documents(WORKLOADS, cluster.workloads.namespace)
    ledgers, claims, pods = cluster.workloads.ledgers(), cluster.workloads.claims(), cluster.workloads.pods()
    return [
        *_ledgers(ledgers, claims, 0 if lowered else limit),
        *_seats(workloads, ledgers),
        *_pods(workloads, ledgers, pods),
        *_claims(ledgers, claims, pods),
        *_host_memory(cluster, ledgers, claims),
        *IdleCapacity(cluster.server, cluster.workloads.namespace, limit).found(),
    ]


def _ledgers(ledgers: list[Document], claims: list[Document], limit: int) -> Iterator[str]:
    """Violations of contract §8.1, contract §8.5 and contract §8.6 at rest."""
    named = {claim["metadata"]["name"] for claim in claims}
    for ledger in ledgers:
        name, seats = ledger["metadata"]["name"], ledger["spec"].get("seats") or []
        if limit and len(seats) > limit:
            yield f"{name} has {len(seats)} seats, the limit is {limit}"
        if not seats:
            yield f"{name} is empty"
        if ledger["spec"]["claimName"] not in named:
            yield f"{name} has no claim"
        if len(seats) > 1 and any(seat.get("exclusive") for seat in seats):
            yield f"an exclusive worker shares {name}"


def _seats(workloads: list[Document], ledgers: list[Document]) -> Iterator[str]:
    """Violations of contract §8.2 and contract §8.6 at rest."""
    by_uid = {workload["metadata"]["uid"]: workload for workload in workloads}
    held = Counter(seat["workloadUID"] for ledger in ledgers for seat in ledger["spec"].get("seats") or ())
    for uid, count in held.items():
        name = by_uid[uid]["metadata"]["name"] if uid in by_uid else uid
        if count > 1:
            yield f"{name} holds {count} seats"
        if uid not in by_uid:
            yield f"a seat names the Workload {uid}, which is gone"
        elif _status(by_uid[uid]).get("phase") in TERMINAL:
            yield f"{name} has ended and holds a seat"


def _pods(workloads: list[Document], ledgers: list[Document], pods: list[Document]) -> Iterator[str]:
    """Violations of contract §8.2, contract §8.3 and contract §8.9 at rest."""
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
        if stamp_of(pod) != recorded or seats != {recorded}:
            yield f"Pod {name} says {stamp_of(pod)}, status {recorded}, ledgers {sorted(seats)}"
        if status.get("phase") in TERMINAL:
            yield f"Pod {name} runs although its worker has ended"


def _claims(ledgers: list[Document], claims: list[Document], pods: list[Document]) -> Iterator[str]:
    """Violations of contract §8.6 at rest: claims without a ledger."""
    used = {name for pod in pods if not has_ended(pod) for name in claim_names(pod)}
    uids = {ledger["metadata"]["uid"] for ledger in ledgers}
    for claim in claims:
        owners = {owner["uid"] for owner in claim["metadata"].get("ownerReferences") or ()}
        if not owners & uids:
            yield f"{claim['metadata']['name']} has no ledger"
        # One that was deleted by hand stays until the Pods that run on it have ended.
        if "deletionTimestamp" in claim["metadata"] and claim["metadata"]["name"] not in used:
            yield f"{claim['metadata']['name']} is still terminating"


def _host_memory(cluster: SimulatedCluster, ledgers: list[Document], claims: list[Document]) -> Iterator[str]:
    """Violations of contract §8.7 at rest: seats request more memory than the node has."""
    nodes = {claim["metadata"]["name"]: node_of(claim) for claim in claims}
    booked: Counter[str] = Counter()
    for ledger in ledgers:
        node = nodes.get(ledger["spec"]["claimName"], "")
        seats = ledger["spec"].get("seats") or ()
        booked[node] += sum(parse_bytes(seat.get("hostRequest") or "0") for seat in seats)
    for record in cluster.server.store.all(NODES):
        allocatable = parse_bytes(_status(record.document).get("allocatable", {}).get("memory", "0"))
        if booked[record.key.name] > allocatable:
            yield f"{booked[record.key.name]} bytes are booked on {record.key.name}, which has {allocatable}"


# The small questions that tests ask, too.


def seats_of(ledger: Record | None) -> list[Document]:
    """The seats of one version of a ledger."""
    return [] if ledger is None else list(ledger.document["spec"].get("seats") or ())


def all_seats(server: ApiServer) -> list[tuple[str, Document]]:
    """Every seat, as (claim, seat)."""
    return [
        (ledger.document["spec"]["claimName"], seat)
        for ledger in server.store.all(LEDGERS)
        for seat in seats_of(ledger)
    ]


def owner_uid(pod: Document) -> str:
    """UID of the Workload that controls a Pod, empty for others' Pods."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((o["uid"] for o in owners if o.get("controller") and o["kind"] == WORKLOADS.kind), "")


def has_ended(pod: Document) -> bool:
    """Whether a Pod is in a final phase."""
    return _status(pod).get("phase") in TERMINAL


def claim_names(pod: Document) -> list[str]:
    """The claims that a Pod uses."""
    return [entry["resourceClaimName"] for entry in pod["spec"].get("resourceClaims") or ()]


def stamp_of(pod: Document) -> tuple[Any, Any]:
    """Claim and assignment that a Pod was made for."""
    env = {e["name"]: e.get("value") for c in pod["spec"]["containers"] for e in c.get("env") or ()}
    return next(iter(claim_names(pod)), None), env.get("OPEN_RL_ASSIGNMENT_ID")


def node_of(claim: Document) -> str:
    """The node that a claim is allocated to, empty if it is not."""
    allocation = _status(claim).get("allocation") or {}
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def _status(document: Document) -> Document:
    return document.get("status") or {}


def _phase(record: Record) -> str:
    return str(_status(record.document).get("phase", ""))
