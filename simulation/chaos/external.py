"""The actions of people and other programs on a cluster.

Somebody with the necessary rights could take each of these actions. Some break the controller's rules on
purpose. The checks ignore a rule-breaking write itself, but never the controller's reaction to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

from informers.api import ObjectKey
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.interception import Request
from simulation.apiserver.kinds import (
    CLAIMS,
    DEVICE_CLASSES,
    LEDGERS,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    WORKLOADS,
    Kind,
)
from simulation.apiserver.store import Store
from simulation.chaos.scenario import UserAction
from simulation.checks.invariants import InvariantChecker
from simulation.cluster.deployment import Deployment
from simulation.cluster.nodes import DRIVER, NodeShape, slice_name
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.engine.trace import Trace

MARK = "example.com/touched"
"""An annotation that no component reads."""


class ExternalActors:
    """Users, administrators, kubelets under pressure, and other programs."""

    def __init__(self, cluster: SimulatedCluster, invariants: InvariantChecker, trace: Trace) -> None:
        self._cluster = cluster
        self._server = cluster.server
        self._invariants = invariants
        self._trace = trace
        self._touches = 0
        self._deleted_with_namespace: dict[str, Document] = {}
        """Specs of the Workloads that were deleted with their namespace and are still expected."""
        cluster.namespace_controller.deletion_hook = self._namespace_deletion
        self.expected: dict[str, str] = {}
        """The UIDs of the Workloads that users expect to exist, by name."""
        self.rivals: list[Deployment] = []
        """Controllers that run besides the Deployment."""
        self.held_pods: list[ObjectKey] = []
        """Pods that their kubelet does not start."""

    def __repr__(self) -> str:
        return f"<ExternalActors touches={self._touches} rivals={len(self.rivals)}>"

    @property
    def _store(self) -> Store:
        return self._server.store

    def _trace_action(self, verb: str, kind: str, name: str, actor: str = "hand") -> None:
        self._trace.add(actor, verb, kind, name)

    # Users.

    def run(self, action: UserAction) -> None:
        """Carry out the action of a user or of a worker's process, if it is possible now."""
        workloads, key = self._cluster.workloads, self._cluster.workloads.pod_key(action.name)
        known = workloads.get(action.name)
        if action.verb == "submit" and known is None and self._accepts_workloads:
            self._trace_action("submit", "workloads", action.name, "user")
            self._submit(action.body)
        elif action.verb == "delete":
            self._forget(action.name)
            if known is not None:
                self._trace_action("delete", "workloads", action.name, "user")
                workloads.delete(action.name)
        elif action.verb in {"succeed", "fail"} and self._is_running(key):
            self._trace_action(action.verb, "pods", key.name, "kubelet")
            if action.verb == "succeed":
                self._cluster.kubelet.succeed(key)
            else:
                self._cluster.kubelet.fail(key)

    def _submit(self, body: Mapping[str, Any]) -> None:
        self._cluster.workloads.submit(dict(body))
        name = body["metadata"]["name"]
        created = self._cluster.workloads.get(name)
        self.expected[name] = created["metadata"]["uid"] if created is not None else ""

    def _forget(self, name: str) -> None:
        self.expected.pop(name, None)
        self._deleted_with_namespace.pop(name, None)

    def _is_running(self, key: ObjectKey) -> bool:
        pod = self._store.get(PODS, key)
        return pod is not None and not pod.deleting and pod.document["status"].get("phase") == "Running"

    # Rogue writes.

    def touch(self, request: Request) -> None:
        """Make a harmless change to the object of a request, so that its version changes."""
        if self._server.document(request.kind, request.name, request.namespace) is None:
            return
        self._touches += 1
        patch = {"metadata": {"annotations": {MARK: str(self._touches)}}}
        self._server.patch(request.kind, request.name, request.namespace, patch)

    # Manual edits.

    def edit(self, rng: Random) -> None:
        """Make one random edit: remove a seat, ledger, claim, labels or Pod, or force-delete a Workload."""
        edits: tuple[tuple[Kind, str, Callable[[Record], None]], ...] = (
            (LEDGERS, "remove_seat", self._remove_seat),
            (LEDGERS, "delete_ledger", self._delete_ledger),
            (CLAIMS, "delete_claim", self._delete_claim),
            (CLAIMS, "strip_labels", self._strip_claim_labels),
            (PODS, "delete_pod", self._delete_pod),
            (PODS, "delete_pod", self._delete_pod),
            (PODS, "strip_labels_of_pod", self._strip_pod_labels),
            (WORKLOADS, "force_out", self._force_delete),
            (WORKLOADS, "force_anew", self._force_recreate),
        )
        kind, verb, edit = edits[rng.randrange(len(edits))]
        records = self._store.all(kind, self._cluster.workloads.namespace)
        if records:
            record = records[rng.randrange(len(records))]
            self._trace_action(verb, kind.plural, record.key.name)
            with self._invariants.suspended():
                edit(record)

    def remove_seat(self, ledger: Record) -> None:
        """Remove the first seat of a ledger."""
        with self._invariants.suspended():
            self._remove_seat(ledger)

    def delete_ledger(self, ledger: Record) -> None:
        """Delete a ledger with all its seats."""
        with self._invariants.suspended():
            self._delete_ledger(ledger)

    def _remove_seat(self, record: Record) -> None:
        def change(document: Document) -> None:
            document["spec"]["seats"] = (document["spec"].get("seats") or [])[1:]

        self._server.edit(LEDGERS, record.key, change)

    def _delete_ledger(self, record: Record) -> None:
        self._server.delete(LEDGERS, record.key.name, record.key.namespace)

    def _delete_claim(self, record: Record) -> None:
        self._invariants.exempt(record.uid)
        self._server.delete(CLAIMS, record.key.name, record.key.namespace)

    def _strip_claim_labels(self, record: Record) -> None:
        self._server.edit(CLAIMS, record.key, lambda document: document["metadata"].pop("labels", None))

    def _strip_pod_labels(self, record: Record) -> None:
        self._server.edit(PODS, record.key, lambda document: document["metadata"].pop("labels", None))

    def _delete_pod(self, record: Record) -> None:
        self._server.delete(PODS, record.key.name, record.key.namespace)

    def _force_delete(self, record: Record) -> None:
        """Delete a Workload and remove its finalizer, so that nothing releases its seat."""
        self._forget(record.key.name)
        if not record.deleting:
            self._server.delete(WORKLOADS, record.key.name, record.key.namespace)
        if self._store.get(WORKLOADS, record.key) is not None:
            self._server.edit(
                WORKLOADS, record.key, lambda document: document["metadata"].pop("finalizers", None)
            )

    def _force_recreate(self, record: Record) -> None:
        """Force-delete a Workload and create another of its name at once."""
        self._force_delete(record)
        body = record.copy()
        if self._accepts_workloads:
            self._submit({**body, "metadata": {"name": record.key.name}, "status": None})

    def drain(self, node: str) -> None:
        """Cordon a node and delete its Pods."""
        self.close_node(node, "cordon")
        for pod in self._store.all(PODS):
            if pod.document["spec"].get("nodeName") == node and not pod.deleting:
                self._delete_pod(pod)

    def disrupt(self, rng: Random) -> None:
        """Evict or reject a Pod, or keep the next Pod of that name from starting."""
        pods = [
            pod
            for pod in self._store.all(PODS, self._cluster.workloads.namespace)
            if pod.document["spec"].get("nodeName") and not pod.deleting
        ]
        if not pods:
            return
        pod = pods[rng.randrange(len(pods))]
        phase = pod.document["status"].get("phase")
        verb = rng.choice(("evict", "hold", "reject"))
        if verb == "evict" and phase == "Running":
            self._trace_action("evict", "pods", pod.key.name, "kubelet")
            self._cluster.kubelet.disrupt(pod.key)
        elif verb == "reject" and phase == "Pending":
            self._trace_action("reject", "pods", pod.key.name, "kubelet")
            self._cluster.kubelet.reject(pod.key)
        elif verb == "hold":
            self._trace_action("hold", "pods", pod.key.name, "kubelet")
            self._cluster.kubelet.hold(pod.key)
            self.held_pods.append(pod.key)

    def release_held_pods(self) -> None:
        """Start every held Pod."""
        for key in self.held_pods:
            self._cluster.kubelet.release(key)
        self.held_pods.clear()

    # The namespace.

    @property
    def _accepts_workloads(self) -> bool:
        namespace = self._store.get(NAMESPACES, ObjectKey("", self._cluster.workloads.namespace))
        return namespace is not None and not namespace.deleting

    def delete_namespace(self) -> bool:
        """Delete the workers' namespace with its contents; return False if it is terminating already."""
        if not self._accepts_workloads:
            return False
        expected = [record for record in self._store.all(WORKLOADS) if record.key.name in self.expected]
        self._deleted_with_namespace = {record.key.name: record.copy()["spec"] for record in expected}
        self.expected.clear()
        self._server.delete(NAMESPACES, self._cluster.workloads.namespace)
        return True

    def restore_namespace(self) -> bool:
        """Recreate the namespace and its expected Workloads once it is gone; return whether it exists."""
        if self._accepts_workloads:
            return True
        name = self._cluster.workloads.namespace
        if self._store.get(NAMESPACES, ObjectKey("", name)) is not None:
            return False
        self._trace_action("restore", "namespaces", name)
        self._server.create(NAMESPACES, "", {"metadata": {"name": name}})
        for workload, spec in self._deleted_with_namespace.items():
            self._submit({"metadata": {"name": workload}, "spec": spec})
        return True

    @contextmanager
    def _namespace_deletion(self, kind: Kind, record: Record) -> Iterator[None]:
        """Ignore a deletion by the namespace controller, which follows none of our rules."""
        if kind is CLAIMS:
            self._invariants.exempt(record.uid)
        with self._invariants.suspended():
            yield

    # Nodes and devices.

    def has_node(self, name: str) -> bool:
        """Return whether the Node exists."""
        return self._store.get(NODES, ObjectKey("", name)) is not None

    def add_node(self, name: str, shape: NodeShape) -> None:
        """Create the Node if absent; its previous ResourceSlice may not have been garbage-collected yet."""
        if self.has_node(name):
            return
        if self._has_slice(name):
            self._server.delete(SLICES, slice_name(name))
        self._cluster.fleet.add_node(name, shape)

    def remove_node(self, name: str) -> None:
        """Delete the Node."""
        self._cluster.fleet.remove_node(name)

    def close_node(self, name: str, method: str) -> None:
        """Cordon the node, taint it, or mark it not ready."""
        fleet = self._cluster.fleet
        if method == "cordon":
            fleet.cordon(name)
        elif method == "taint":
            fleet.taint(name, "example.com/maintenance", "NoSchedule")
        else:
            fleet.set_ready(name, ready=False)
            fleet.taint(name, "node.kubernetes.io/not-ready", "NoSchedule")

    def open_node(self, name: str) -> None:
        """Undo every `close_node`."""
        fleet = self._cluster.fleet
        fleet.cordon(name, on=False)
        fleet.untaint(name, "example.com/maintenance")
        fleet.untaint(name, "node.kubernetes.io/not-ready")
        fleet.set_ready(name, ready=True)

    def _has_slice(self, node: str) -> bool:
        return self._store.get(SLICES, ObjectKey("", slice_name(node))) is not None

    def withdraw_devices(self, node: str, *, incomplete: bool) -> None:
        """Delete the node's ResourceSlice, or make its pool incomplete."""
        if not self._has_slice(node):
            return
        if incomplete:
            self._cluster.fleet.set_devices(node, [], slice_count=2)
        else:
            self._server.delete(SLICES, slice_name(node))

    def publish_devices(self, node: str, shape: NodeShape) -> None:
        """Publish the node's original devices, whatever is published now."""
        memories = [shape.gpu_memory] * shape.gpus
        if self._has_slice(node):
            self._cluster.fleet.set_devices(node, memories)
        else:
            uid = str(self._server.get(NODES, node).uid)
            self._cluster.fleet.publish_devices(node, uid, memories)

    def remove_device_class(self) -> None:
        """Delete the DeviceClass if it exists."""
        if self._store.get(DEVICE_CLASSES, ObjectKey("", DRIVER)) is not None:
            self._cluster.fleet.remove_device_class()

    def add_device_class(self) -> None:
        """Create the DeviceClass if it is absent."""
        self._cluster.fleet.ensure_device_class()
