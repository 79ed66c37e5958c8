"""Coverage points: a large batch that never hits one of them has tested less than it claims.

They show that the invariants hold under faults that really occurred (contract §8.10). Every point is observed
from outside: from writes to the server, outcomes of calls, and statistics of controllers. The controller has
no hooks for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from informers.api import WatchEventType
from simulation.actors.devices import allocation_results
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Change
from simulation.checks.pod_facts import claim_names, owner_uid, pod_events
from simulation.cluster.deployment import Deployment, Replica
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE
from simulation.cluster.workloads import worker_pod_name
from simulation.engine.trace import Trace

POINTS: Mapping[str, str] = {
    # Calls.
    "conflict": "a write was refused because its version was stale",
    "answer lost": "a write took effect and its sender got no answer",
    "late write applied": "a write took effect after its sender gave up",
    "late write refused": "a late write was refused because of its precondition",
    "write during partition": "a write was sent into a partition",
    # Watches and caches.
    "history expired": "a watch was answered with 410",
    "relist": "a cache was listed again",
    "stale list": "a list came from a lagging cache",
    # Processes.
    "crash": "a controller was killed",
    "crash between seat and status": "a controller was killed while a seat existed that no status named",
    "crash between status and Pod": "a controller was killed while a status named a seat without a Pod",
    "lease lost": "a leader lost its lease",
    "two leaders": (
        "two processes with leader election believed at the same time that they led, and one of them wrote"
    ),
    "graceful stop": "a controller was asked to stop and stopped",
    "rival": "a controller without leader election wrote",
    "paused past the lease": "a frozen leader was thawed after its lease had expired",
    # Seats.
    "joined": "a worker joined the claim of another worker",
    "booking refused": "a ledger refused a booking, and the worker had to choose again",
    "ledger full": "a ledger reached the limit",
    "ledger over the limit": "a ledger held more seats than a lowered limit",
    "hand-off": "a worker moved from its own claim to a freed seat",
    "seat repaired": "a missing seat was booked again",
    "ledger recreated": "the ledger of a live claim was created again",
    "claim re-pointed": "the owner of a claim was changed to another ledger",
    "unrecorded seat released": "a seat that no status named was released",
    "orphan swept": "a sweep released an orphan",
    "stuck claim replaced": "a worker abandoned an allocated claim that refused it",
    "seat lost": "a worker lost its seat for good and was placed again",
    "seat replaced": "a worker took over the seat of a deleted worker of the same name",
    # Workers.
    "timed out": "a worker failed because nothing fit in time",
    "waited for a predecessor": "a worker waited for its predecessor's Pod or claim",
    "namespace deleted": "the workers' namespace was deleted with its contents",
    "no device class": "a worker waited for the DeviceClass",
    "invalid": "a worker failed because of its spec",
    "Pod lost": "a worker got a second Pod",
    "ended": "a worker ended by itself",
    "claim name reused": "a claim was created under the name of a deleted one",
    # The rules and accidents of a real cluster.
    "creation refused": "the rules of the cluster's owner refused a worker's Pod, claim or ledger",
    "probe": "a process tested with a dry run whether a refusal is over",
    "Pod changed": "admission added containers, overhead or labels to a worker's Pod",
    "gated": "a worker's Pod had a scheduling gate or named a scheduler that did not run",
    "place refused": "the node of an allocated claim refused a worker's Pod",
    "evicted by device": "a tainted device evicted a worker's Pod",
    "evicted for own fault": "a worker's Pod was evicted because it used too much",
    "held Pod": "a finalizer kept a deleted Pod that had never been bound",
    "claim moved": "a claim was allocated to another device than before",
    "foreign owner": "a Pod of another namespace named a Workload as its owner",
    # At rest.
    "handed off at rest": "a seat was freed at rest, and its hand-off was checked",
    "repaired at rest": "a seat was removed at rest, and its repair was checked",
}
"""Every point, with its meaning."""

BATCH_MIN = 100
"""Smaller batches need not hit all points."""

_BY_REASON: Mapping[str, str] = {
    "JoinedClaim": "joined",
    "SharedOnUnschedulable": "hand-off",
    "ReplacingWedgedClaim": "stuck claim replaced",
    "SeatLost": "seat lost",
    "PlacementTimeout": "timed out",
    "WaitingForPredecessorClaim": "waited for a predecessor",
    "WaitingForPredecessorPod": "waited for a predecessor",
    "InvalidConfiguration": "no device class",
    "InvalidSpec": "invalid",
    "PodRejected": "creation refused",
}

_BY_END: Mapping[tuple[str, str], str] = {
    ("kill", ""): "crash",
    ("end", "stopped"): "graceful stop",
    ("end", "lost its lease"): "lease lost",
}


def missed_points(hits: Mapping[str, int]) -> list[str]:
    """Return the points that were never hit."""
    return [name for name in POINTS if not hits.get(name)]


class CoveragePoints:
    """Counts the coverage points of one run."""

    def __init__(self, server: ApiServer, trace: Trace) -> None:
        self._server = server
        self._trace = trace
        self._hits: Counter[str] = Counter()
        self._pod_counts: Counter[str] = Counter()
        self._claim_names: set[str] = set()
        # The last device of each claim, by UID.
        self._devices: dict[str, str] = {}
        self._ledger_names: set[str] = set()
        self.lowest_limit = 0
        """The lowest limit of the running controllers; 0 means no limit."""
        server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<CoveragePoints hit={len(self._hits)} of {len(POINTS)}>"

    def hit(self, name: str, times: int = 1) -> None:
        """Count a point."""
        if times:
            self._hits[name] += times

    def report(self, deployments: list[Deployment]) -> Mapping[str, int]:
        """Return all points that were hit; call it after a run."""
        for (verb, kind, outcome), times in self._trace.outcome_counts.items():
            self._on_outcome(verb, kind, outcome, times)
        for deployment in deployments:
            for replica in deployment.all_replicas:
                self._on_replica(replica)
        return dict(sorted(self._hits.items()))

    # From the outcomes of calls.

    def _on_outcome(self, verb: str, kind: str, outcome: str, times: int) -> None:
        if outcome == "Conflict":
            self.hit("conflict", times)
        elif outcome == "late ok":
            self.hit("late write applied", times)
        elif outcome.startswith("late "):
            self.hit("late write refused", times)
        elif outcome == "cut off" and verb in {"patch", "create", "delete"}:
            self.hit("write during partition", times)
        elif outcome == "answer lost" and verb in {"patch", "create", "delete"}:
            self.hit("answer lost", times)
        elif outcome == "Gone":
            self.hit("history expired", times)
        elif kind == "process":
            name = _BY_END.get((verb, outcome))
            if name is not None:
                self.hit(name, times)

    # From the statistics of controllers.

    def _on_replica(self, replica: Replica) -> None:
        controller = replica.controller
        book = controller.book.statistics()
        self.hit("booking refused", book.refused)
        self.hit("orphan swept", sum(controller.sweep.statistics().released_total.values()))
        lists = [informer.statistics().reflector.lists_total for informer in controller.caches.all()]
        self.hit("relist", sum(total - 1 for total in lists if total > 1))

    # From the writes.

    def _on_change(self, change: Change) -> None:
        if change.kind is WORKLOADS:
            self._on_workload(change)
        elif change.kind is LEDGERS:
            self._on_ledger(change)
        elif change.kind is PODS:
            self._on_pod(change)
        elif change.kind is CLAIMS:
            self._on_claim(change)

    def _on_workload(self, change: Change) -> None:
        before = _status(change.before.document) if change.before is not None else {}
        after = _status(change.record.document)
        code = str(after.get("reason", "")).partition(":")[0]
        if after.get("reason") != before.get("reason") and code in _BY_REASON:
            self.hit(_BY_REASON[code])
        if after.get("phase") != before.get("phase") and (
            after.get("phase") == "Succeeded" or code == "PodFailed"
        ):
            self.hit("ended")

    def _on_ledger(self, change: Change) -> None:
        seats = [] if change.type is WatchEventType.DELETED else _seats(change.record.document)
        before = [] if change.before is None else _seats(change.before.document)
        limit = self.lowest_limit
        if limit and len(seats) != len(before):
            self.hit("ledger full", len(seats) == limit)
            self.hit("ledger over the limit", len(seats) > limit)
        known = {seat["workloadUID"] for seat in before}
        for seat in seats:
            if seat["workloadUID"] not in known and self._named_by_status(seat):
                self.hit("seat repaired")
        names = {seat["workload"]: seat["workloadUID"] for seat in before}
        if any(names.get(seat["workload"], seat["workloadUID"]) != seat["workloadUID"] for seat in seats):
            self.hit("seat replaced")
        if change.type is WatchEventType.ADDED:
            name = change.record.key.name
            claim = change.record.document["spec"]["claimName"]
            claim_exists = self._server.document(CLAIMS, claim, change.record.key.namespace) is not None
            self.hit("ledger recreated", name in self._ledger_names and claim_exists)
            self._ledger_names.add(name)
        kept = {seat["workloadUID"] for seat in seats}
        self.hit(
            "unrecorded seat released",
            sum(self._is_unrecorded(seat) for seat in before if seat["workloadUID"] not in kept),
        )

    def _on_pod(self, change: Change) -> None:
        pod, owner = change.record.document, owner_uid(change.record.document)
        if change.type is WatchEventType.ADDED:
            references = change.record.metadata.get("ownerReferences") or ()
            self.hit(
                "foreign owner", not owner and any(each["kind"] == WORKLOADS.kind for each in references)
            )
        if not owner:
            return
        if change.type is WatchEventType.ADDED:
            self._pod_counts[owner] += 1
            self.hit("Pod lost", self._pod_counts[owner] > 1)
            spec = pod["spec"]
            self.hit("Pod changed", bool(spec.get("initContainers") or spec.get("overhead")))
            self.hit("gated", bool(spec.get("schedulingGates") or spec.get("schedulerName")))
            return
        held = change.record.deleting and not pod["spec"].get("nodeName")
        self.hit("held Pod", held and bool(change.record.metadata.get("finalizers")))
        facts = pod_events(pod)
        known = pod_events(change.before.document) if change.before is not None else frozenset()
        for name in sorted(facts - known):
            claims = self._server.store.all(CLAIMS, WORKER_NAMESPACE) if name == "place refused" else ()
            used = [claim for claim in claims if claim.key.name in claim_names(pod)]
            self.hit(name, name != "place refused" or any(_device(claim.document) for claim in used))

    def _workload_of(self, seat: Document) -> Document | None:
        workload = self._server.document(WORKLOADS, seat["workload"], WORKER_NAMESPACE)
        if workload is None or workload["metadata"]["uid"] != seat["workloadUID"]:
            return None
        return workload

    def _named_by_status(self, seat: Document) -> bool:
        workload = self._workload_of(seat)
        return workload is not None and _status(workload).get("assignmentID") == seat["assignmentID"]

    def _is_unrecorded(self, seat: Document) -> bool:
        """Return whether a live Workload with a claim names an assignment other than this seat's."""
        workload = self._workload_of(seat)
        if workload is None or "deletionTimestamp" in workload["metadata"]:
            return False
        status = _status(workload)
        return bool(status.get("claimName")) and status.get("assignmentID") != seat["assignmentID"]

    def _on_claim(self, change: Change) -> None:
        owners = [owner["uid"] for owner in change.record.metadata.get("ownerReferences") or ()]
        if change.before is not None:
            known = [owner["uid"] for owner in change.before.metadata.get("ownerReferences") or ()]
            self.hit("claim re-pointed", owners != known)
            device = _device(change.record.document)
            if device:
                last = self._devices.setdefault(change.record.uid, device)
                self.hit("claim moved", last != device)
                self._devices[change.record.uid] = device
        elif change.type is WatchEventType.ADDED:
            self.hit("claim name reused", change.record.key.name in self._claim_names)
            self._claim_names.add(change.record.key.name)

    # From the state at a kill.

    def on_kill(self) -> None:
        """Count what a controller leaves half done when it is killed."""
        pods = {record.key.name for record in self._server.store.all(PODS, WORKER_NAMESPACE)}
        for ledger in self._server.store.all(LEDGERS, WORKER_NAMESPACE):
            for seat in _seats(ledger.document):
                workload = self._workload_of(seat)
                if workload is None or _status(workload).get("phase") in {"Succeeded", "Failed"}:
                    continue
                if _status(workload).get("assignmentID") != seat["assignmentID"]:
                    self.hit("crash between seat and status")
                elif worker_pod_name(seat["workload"]) not in pods:
                    self.hit("crash between status and Pod")


def _device(claim: Document) -> str:
    """Return the first device of a claim's allocation, empty without one."""
    return next((f"{each['pool']}/{each['device']}" for each in allocation_results(claim)), "")


def _status(document: Document) -> Document:
    return document.get("status") or {}


def _seats(document: Document) -> list[Document]:
    return document["spec"].get("seats") or []
