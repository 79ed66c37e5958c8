"""What must happen now and then: a large batch in which one of these never did has tested less than it says.

Every point is observed from outside: from the writes to the server, the outcomes of calls, and the statistics
of controllers. The controller has no hooks for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from informers.api import WatchEventType
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Change
from simulation.cluster.deployment import Deployment, Replica
from simulation.cluster.simulated import WORKER_NAMESPACE
from simulation.cluster.workloads import worker_pod_name
from simulation.engine.trace import Trace

POINTS: Mapping[str, str] = {
    # Calls.
    "conflict": "a write was refused because its version was old",
    "answer lost": "a write took effect and its sender was not told",
    "write arrived late": "a write took effect after its sender gave up",
    "write arrived too late": "a write that arrived late was refused by its precondition",
    "write when cut off": "a write was sent into a partition",
    # Watches and caches.
    "history expired": "a watch was answered with 410",
    "list again": "a cache was listed again",
    "stale list": "a list came from a cache that was behind",
    # Processes.
    "crash": "a controller was killed",
    "crash between seat and status": "a controller was killed when a seat existed that no status named",
    "crash between status and Pod": "a controller was killed when a status named a seat and no Pod existed",
    "lease lost": "a leader lost its lease",
    "two leaders": "two processes that elect a leader believed to lead at a time, and one of them wrote",
    "stopped in order": "a controller was told to stop and did",
    "rival": "a controller without leader election wrote",
    "overslept": "a frozen process was thawed after its lease had run out",
    # Seats.
    "joined": "a worker took a seat on another's claim",
    "booking refused": "a ledger refused a booking, and the worker had to choose again",
    "ledger full": "a ledger reached the limit",
    "ledger over the limit": "a ledger held more seats than a limit that had been lowered",
    "hand-off": "a worker left its own claim for a seat that had become free",
    "seat repaired": "a seat that had vanished was booked again",
    "ledger made again": "the ledger of a live claim was made again",
    "claim re-pointed": "a claim was given to another ledger",
    "stray released": "a seat that no status named was released",
    "orphan swept": "a sweep released an orphan",
    "wedged claim replaced": "a worker abandoned an allocated claim that refused it",
    "seat lost": "a worker lost its seat for good and was placed again",
    "replaced in place": "a seat passed from a worker that is gone to one of its name",
    # Workers.
    "timed out": "a worker failed because nothing took it in time",
    "awaited a predecessor": "a worker waited for its predecessor's Pod or claim",
    "namespace deleted": "the workers' namespace was deleted with everything in it",
    "no device class": "a worker waited for the DeviceClass",
    "invalid": "a worker was failed because of its spec",
    "Pod lost": "a worker got a second Pod",
    "ended": "a worker ended by itself",
    "GC raced": "a claim of a name came back while the one before was being collected",
    # At rest.
    "handed on at rest": "a seat was freed in a cluster at rest, and it was judged who took it",
    "mended at rest": "a hand took something away in a cluster at rest, and it was judged what came back",
}
"""Every point by name, with what it means."""

BATCH_MIN = 100
"""Fewer runs need not show all points."""

_BY_REASON: Mapping[str, str] = {
    "JoinedClaim": "joined",
    "SharedOnUnschedulable": "hand-off",
    "ReplacingWedgedClaim": "wedged claim replaced",
    "SeatLost": "seat lost",
    "PlacementTimeout": "timed out",
    "WaitingForPredecessorClaim": "awaited a predecessor",
    "WaitingForPredecessorPod": "awaited a predecessor",
    "InvalidConfiguration": "no device class",
    "InvalidSpec": "invalid",
}

_BY_END: Mapping[tuple[str, str], str] = {
    ("kill", ""): "crash",
    ("end", "stopped"): "stopped in order",
    ("end", "lost its lease"): "lease lost",
}


def missing(hits: Mapping[str, int]) -> list[str]:
    """The points that were never hit."""
    return [name for name in POINTS if not hits.get(name)]


class CoveragePoints:
    """Counts the points of one run."""

    def __init__(self, server: ApiServer, trace: Trace) -> None:
        self._server = server
        self._trace = trace
        self._hits: Counter[str] = Counter()
        self._pods: Counter[str] = Counter()
        self._claims: set[str] = set()
        self._ledgers: set[str] = set()
        self.lowest_limit = 0
        """The lowest limit that a running controller goes by; 0 is none."""
        server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<Sometimes hit={len(self._hits)} of {len(POINTS)}>"

    def hit(self, name: str, times: int = 1) -> None:
        """Note a point."""
        if times:
            self._hits[name] += times

    def report(self, deployments: list[Deployment]) -> Mapping[str, int]:
        """All points that were hit, after a run."""
        for (verb, kind, outcome), times in self._trace.outcomes.items():
            self._on_outcome(verb, kind, outcome, times)
        for deployment in deployments:
            for replica in deployment.all:
                self._on_replica(replica)
        return dict(sorted(self._hits.items()))

    # From the outcomes of calls.

    def _on_outcome(self, verb: str, kind: str, outcome: str, times: int) -> None:
        if outcome == "Conflict":
            self.hit("conflict", times)
        elif outcome == "late ok":
            self.hit("write arrived late", times)
        elif outcome.startswith("late "):
            self.hit("write arrived too late", times)
        elif outcome == "cut off" and verb in {"patch", "create", "delete"}:
            self.hit("write when cut off", times)
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
        self.hit("list again", sum(total - 1 for total in lists if total > 1))

    # From the writes.

    def _on_change(self, change: Change) -> None:
        if change.kind is WORKLOADS:
            self._on_workload(change)
        elif change.kind is LEDGERS:
            self._on_ledger(change)
        elif change.kind is PODS and change.type is WatchEventType.ADDED:
            for owner in change.record.metadata.get("ownerReferences") or ():
                self._pods[owner["uid"]] += 1
                self.hit("Pod lost", self._pods[owner["uid"]] > 1)
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
            self.hit("replaced in place")
        if change.type is WatchEventType.ADDED:
            name = change.record.key.name
            claim = change.record.document["spec"]["claimName"]
            living = self._server.document(CLAIMS, claim, change.record.key.namespace) is not None
            self.hit("ledger made again", name in self._ledgers and living)
            self._ledgers.add(name)
        kept = {seat["workloadUID"] for seat in seats}
        self.hit(
            "stray released", sum(self._is_stray(seat) for seat in before if seat["workloadUID"] not in kept)
        )

    def _workload_of(self, seat: Document) -> Document | None:
        found = self._server.document(WORKLOADS, seat["workload"], WORKER_NAMESPACE)
        return found if found is not None and found["metadata"]["uid"] == seat["workloadUID"] else None

    def _named_by_status(self, seat: Document) -> bool:
        workload = self._workload_of(seat)
        return workload is not None and _status(workload).get("assignmentID") == seat["assignmentID"]

    def _is_stray(self, seat: Document) -> bool:
        """Its Workload lives, has not ended, and names another assignment."""
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
        elif change.type is WatchEventType.ADDED:
            self.hit("GC raced", change.record.key.name in self._claims)
            self._claims.add(change.record.key.name)

    # What only the moment shows.

    def on_kill(self) -> None:
        """A controller is being killed: what has it left half done?"""
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


def _status(document: Document) -> Document:
    return document.get("status") or {}


def _seats(document: Document) -> list[Document]:
    return document["spec"].get("seats") or []
