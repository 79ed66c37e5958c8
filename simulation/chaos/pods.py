"""Interference with Pods and their devices: evictions, gates, finalizers, taints, and Pods of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from informers.api import ObjectKey
from simulation.actors.base import condition
from simulation.apiserver.documents import Document, Record, format_time
from simulation.apiserver.kinds import DEVICE_TAINT_RULES, NODES, PODS, SLICES, WORKLOADS
from simulation.apiserver.refusals import Refusal
from simulation.chaos import rules
from simulation.cluster.nodes import slice_name
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.engine.random_streams import happens
from simulation.engine.trace import Trace

FOREIGN_NAMESPACE = "default"
DEPTH = 1500
"""kube-apiserver stores objects that nest up to 10,000 levels deep."""

DISRUPTIONS = (
    "EvictionByEvictionAPI",
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "DeletionByPodGC",
)
"""Reasons of `DisruptionTarget` whose authors delete the Pod."""


class PodInterference:
    """Acts on Pods in the roles of kubelets, schedulers, administrators and other programs."""

    def __init__(self, cluster: SimulatedCluster, trace: Trace) -> None:
        self._cluster = cluster
        self._server = cluster.server
        self._trace = trace
        self._foreign_total = 0

    def __repr__(self) -> str:
        return f"<PodInterference foreign={self._foreign_total}>"

    def _worker_pods(self) -> list[Record]:
        return self._server.store.all(PODS, self._cluster.workloads.namespace)

    def undo(self) -> None:
        """Undo everything that lasts."""
        self.open_gates()
        self.drop_finalizers(deleted_only=False)
        for pod in self._server.store.all(PODS, FOREIGN_NAMESPACE):
            self.remove_foreign(pod.key)
        for rule in self._server.store.all(DEVICE_TAINT_RULES):
            self._server.delete(DEVICE_TAINT_RULES, rule.key.name)
        for node in self._server.store.all(NODES):
            self.taint_devices(node.key.name)

    # Gates and finalizers.

    def open_gates(self) -> None:
        """Remove the gates of all Pods, and run the absent scheduler from now on."""
        self._cluster.scheduler.serve(rules.ABSENT_SCHEDULER)
        for pod in self._worker_pods():
            if pod.document["spec"].get("schedulingGates"):
                self._server.edit(PODS, pod.key, lambda document: document["spec"].pop("schedulingGates"))

    def drop_finalizers(self, *, deleted_only: bool) -> None:
        """Remove the stranger's finalizer from Pods, or only from those that are being deleted."""

        def drop(document: Document) -> None:
            kept = [each for each in document["metadata"]["finalizers"] if each != rules.FINALIZER]
            document["metadata"]["finalizers"] = kept

        for pod in self._worker_pods():
            held = rules.FINALIZER in (pod.metadata.get("finalizers") or ())
            if held and (pod.deleting or not deleted_only):
                self._server.edit(PODS, pod.key, drop)

    # Evictions.

    def evict_one(self, rng: Random) -> None:
        """Evict or delete a random worker's Pod, in one of the ways in which real clusters do."""
        pods = [pod for pod in self._worker_pods() if pod.document["spec"].get("nodeName")]
        if not pods:
            return
        pod = pods[rng.randrange(len(pods))]
        how = rng.choice((*DISRUPTIONS, "own fault", "before start", "TerminationByKubelet"))
        running, pending = (pod.document["status"].get("phase") == phase for phase in ("Running", "Pending"))
        if pod.deleting or not (running or pending):
            return
        if how == "before start" and pending:
            self._act(how, pod, lambda key: self._cluster.kubelet.reject(key, "Evicted"))
        elif how == "own fault" and running:
            self._act(how, pod, self._cluster.kubelet.evict_for_own_fault)
        elif how == "TerminationByKubelet" and running:
            self._act(how, pod, lambda key: self._cluster.kubelet.disrupt(key, how))
        elif how in DISRUPTIONS:
            self._act(how, pod, lambda key: self._delete_as(key, how))

    def _act(self, how: str, pod: Record, act: Callable[[ObjectKey], None]) -> None:
        self._trace.add("hand", "evict", "pods", pod.key.name, how)
        act(pod.key)

    def _delete_as(self, key: ObjectKey, reason: str) -> None:
        def change(document: Document) -> None:
            status, timestamp = document["status"], format_time(self._cluster.clock())
            status["conditions"] = condition(
                status, "DisruptionTarget", "True", timestamp=timestamp, reason=reason, message="disrupted"
            )

        self._server.edit(PODS, key, change, subresource="status")
        self._server.delete(PODS, key.name, key.namespace)

    # Devices.

    def taint_devices(self, node: str, *taints: Mapping[str, str], devices: Sequence[str] = ()) -> None:
        """Set the taints of a node's devices if they are published; without taints, remove them."""
        record = self._server.store.get(SLICES, ObjectKey("", slice_name(node)))
        if record is None:
            return
        if taints or any("taints" in device for device in record.document["spec"].get("devices") or ()):
            self._cluster.fleet.taint_devices(node, *taints, devices=devices)

    def add_taint_rule(self, name: str, node: str, device: str, taint: Mapping[str, str]) -> None:
        """Taint one device by a rule, unless one of this name exists."""
        if self._server.store.get(DEVICE_TAINT_RULES, ObjectKey("", name)) is None:
            self._cluster.fleet.add_taint_rule(name, pool=node, device=device, taint=taint)

    def remove_taint_rule(self, name: str) -> None:
        """Delete a rule if it exists."""
        with suppress(Refusal):
            self._cluster.fleet.remove_taint_rule(name)

    # Pods of other namespaces.

    def add_foreign(self, rng: Random, nodes: Sequence[str]) -> ObjectKey:
        """Add a Pod of another namespace whose owner reference names a Workload; return its key."""
        self._foreign_total += 1
        key = ObjectKey(FOREIGN_NAMESPACE, f"foreign-{self._foreign_total}")
        workloads = self._server.store.all(WORKLOADS, self._cluster.workloads.namespace)
        metadata: dict[str, Any] = {"name": key.name, "finalizers": [rules.FINALIZER]}
        if workloads:
            owner = workloads[rng.randrange(len(workloads))]
            reference = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind, "name": owner.key.name}
            metadata["ownerReferences"] = [{**reference, "uid": owner.uid, "controller": True}]
        memory = rng.choice(("1Gi", "16Gi"))
        container = {"name": "main", "image": "main:1", "resources": {"requests": {"memory": memory}}}
        deep = happens(rng, 0.3)
        spec: Document = {"containers": [container]}
        spec |= {"schedulerName": "nobody"} if deep else {"nodeName": rng.choice(nodes)}
        self._trace.add("hand", "create", "pods", key.name, "deep" if deep else "foreign")
        self._server.create(PODS, key.namespace, {"metadata": metadata, "spec": spec})
        if deep:
            self._nest(key)
        return key

    def _nest(self, key: ObjectKey) -> None:
        """Nest a part of the object more deeply than a decoder reads."""
        nested = b'{"f:x":' * DEPTH + b"{}" + b"}" * DEPTH
        managed = msgspec.Raw(b'[{"manager":"deep","fieldsV1":' + nested + b"}]")

        def change(document: Document) -> None:
            document["metadata"]["managedFields"] = managed

        self._server.edit(PODS, key, change)

    def remove_foreign(self, key: ObjectKey) -> None:
        """Remove a Pod at once, with its finalizer."""
        if self._server.store.get(PODS, key) is not None:
            self._server.store.remove(PODS, key)
