"""Attempts to place a worker: they are few, use devices that fit, and do not repeat where it was refused.

`AttemptChecker` counts the Pods and probes of each process (contract §8.13, contract §8.14), and finds a
worker that is placed again at once where it was refused (contract §8.12). `attempt_violations` checks a
settled cluster (contract §8.11, contract §8.12). Both read only the server's objects and the calls of
controllers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from controller.api.reasons import TERMINAL_PHASES, Phase
from informers.api import ObjectKey, WatchEventType
from placement.quantity import parse_bytes
from simulation.actors.devices import allocation_results, read_inventory
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, DEVICE_TAINT_RULES, NODES, PODS, SLICES, WORKLOADS
from simulation.apiserver.server import ApiServer
from simulation.apiserver.store import Change
from simulation.checks.pod_facts import claim_names, has_ended, is_refused, owner_uid
from simulation.cluster.nodes import DRIVER
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE

HOUR_SECONDS = 3600.0
PODS_PER_HOUR_MAX = 40
PROBES_PER_SECOND_MAX = 10
HOLD_SECONDS = 50.0
"""A little less than the shortest hold, because the clocks of processes differ."""


class AttemptChecker:
    """Counts the attempts of each process.

    `writer` returns the process that sent the current write, empty if no process did.
    """

    def __init__(self, server: ApiServer, now: Callable[[], float], writer: Callable[[], str]) -> None:
        self._now = now
        self._writer = writer
        self._pods: dict[tuple[str, str], deque[float]] = {}
        self._probes: dict[str, deque[float]] = {}
        self._server = server
        # The claims whose nodes refused a worker's Pod, by the worker's UID, until it leaves them.
        self._refused: dict[str, str] = {}
        # The refusals that a process acted on, by process, worker and node.
        self._left: dict[tuple[str, str, str], tuple[float, Document]] = {}
        self.violations: list[str] = []
        server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<AttemptChecker violations={len(self.violations)}>"

    def on_probe(self, process: str) -> None:
        """Count a dry run that a process sends (contract §8.14)."""
        if self._count(self._probes.setdefault(process, deque()), 1.0) == PROBES_PER_SECOND_MAX + 1:
            self.violations.append(f"{process} sent more than {PROBES_PER_SECOND_MAX} probes in a second")

    def _on_change(self, change: Change) -> None:
        writer = self._writer()
        if change.kind is PODS:
            self._on_pod(change, writer)
        elif change.kind is NODES and (
            change.before is None or _profile(change.before) != _profile(change.record)
        ):
            self._forget_node(change.record.key.name)
        elif change.kind is WORKLOADS:
            status = change.record.document.get("status") or {}
            if change.type is WatchEventType.DELETED or status.get("phase") in TERMINAL_PHASES:
                self._forget_node(status.get("nodeName", ""))
            elif status.get("phase") == Phase.RUNNING.value:
                # A worker that runs starts again without refusals.
                self._left = {key: value for key, value in self._left.items() if key[1] != change.record.uid}
            elif writer:
                self._on_status(change, writer)

    def _on_pod(self, change: Change, writer: str) -> None:
        pod, owner = change.record.document, owner_uid(change.record.document)
        if not owner:
            return
        if change.type is WatchEventType.ADDED:
            self._refused.pop(owner, None)
            if writer:
                self._count_pod(owner, change.record.key.name, writer)
                self._check_place(owner, pod, writer)
        elif change.type is WatchEventType.DELETED or has_ended(pod):
            self._forget_node(pod["spec"].get("nodeName", ""))
        elif is_refused(pod):
            self._refused[owner] = next(iter(claim_names(pod)), "")

    def _forget_node(self, name: str) -> None:
        """Drop the refusals of a node that has changed, or on which a worker has ended."""
        self._left = {key: value for key, value in self._left.items() if key[2] != name}

    def _count_pod(self, owner: str, name: str, writer: str) -> None:
        """Count a Pod that a process creates for a worker (contract §8.13)."""
        created = self._pods.setdefault((writer, owner), deque())
        if self._count(created, HOUR_SECONDS) == PODS_PER_HOUR_MAX + 1:
            self.violations.append(f"{writer} created {name} more than {PODS_PER_HOUR_MAX} times in an hour")

    def _on_status(self, change: Change, writer: str) -> None:
        """Record that a process leaves a claim whose node refused the worker (contract §8.12)."""
        before = (change.before.document.get("status") or {}) if change.before is not None else {}
        after, uid = change.record.document.get("status") or {}, change.record.uid
        claim = before.get("claimName", "")
        left = claim and not after.get("claimName") and claim == self._refused.get(uid)
        node = self._node_of(claim) if left else None
        if node is not None and str(after.get("reason", "")).startswith("ReplacingWedgedClaim"):
            self._left[(writer, uid, node.key.name)] = (self._now(), _profile(node))

    def _check_place(self, owner: str, pod: Document, writer: str) -> None:
        """Check that the worker does not share a claim on a node that has just refused it (contract §8.12).

        Its own claim is where kube-scheduler has put it, and may be there again.
        """
        stem = f"claim-{pod['metadata']['name'].removeprefix('orw-')}-"
        for claim in claim_names(pod):
            node = None if claim.startswith(stem) else self._node_of(claim)
            if node is None:
                continue
            left_seconds, profile = self._left.get((writer, owner, node.key.name), (None, {}))
            if left_seconds is not None and profile == _profile(node):
                seconds = self._now() - left_seconds
                if seconds < HOLD_SECONDS:
                    name, place = pod["metadata"]["name"], node.key.name
                    self.violations.append(
                        f"{name} is on {place} again {seconds:.0f} s after it was refused there"
                    )

    def _node_of(self, claim: str) -> Record | None:
        """Return the node of an allocated claim."""
        found = self._server.store.get(CLAIMS, ObjectKey(WORKER_NAMESPACE, claim))
        results = allocation_results(found.document) if found is not None else []
        return self._server.store.get(NODES, ObjectKey("", results[0]["pool"])) if results else None

    def _count(self, times: deque[float], window_seconds: float) -> int:
        """Add the current time, and return how many times are within the window."""
        now = self._now()
        times.append(now)
        while times[0] <= now - window_seconds:
            times.popleft()
        return len(times)


def attempt_violations(server: ApiServer, namespace: str) -> Iterator[str]:
    """Yield the violations in a settled cluster: devices that are too small, and refusals that last."""
    store = server.store
    workloads = {record.uid: record for record in store.all(WORKLOADS, namespace)}
    inventory = read_inventory(store.all(SLICES), store.all(DEVICE_TAINT_RULES))
    memory_bytes = {
        (device.identity.pool, device.identity.device): device.cel.capacity_of(DRIVER).get("memory", 0)
        for devices in inventory.devices.values()
        for device in devices
    }
    for pod in store.all(PODS, namespace):
        workload = workloads.get(owner_uid(pod.document))
        if workload is None or has_ended(pod.document) or pod.deleting:
            continue
        for name in claim_names(pod.document):
            claim = store.get(CLAIMS, ObjectKey(namespace, name))
            results = allocation_results(claim.document) if claim is not None else []
            if results and is_refused(pod.document):
                yield f"{workload.key.name} stays on {name}, whose node refuses its Pod"
            elif results and pod.document["spec"].get("nodeName"):
                yield from _small_devices(workload, results, memory_bytes)


def _small_devices(
    workload: Record, results: list[Document], memory_bytes: dict[tuple[str, str], int]
) -> Iterator[str]:
    wanted = parse_bytes(str(workload.document["spec"]["accelerator"]["memory"]))
    for result in results:
        found = memory_bytes.get((result["pool"], result["device"]), wanted)
        if found < wanted:
            device = f"{result['pool']}/{result['device']}"
            yield f"{workload.key.name} runs on {device}, which is too small for it"


def _profile(node: Record) -> Document:
    """Return the visible properties of a node by which it may refuse a Pod."""
    document = node.document
    shown: Document = {"spec": document.get("spec"), "labels": node.metadata.get("labels")}
    return {**shown, "allocatable": (document.get("status") or {}).get("allocatable")}
