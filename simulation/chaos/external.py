"""What people and other programs do to a cluster that is not the controller's doing.

Everything here is legal for somebody with the rights; some of it breaks the controller's rules on purpose. A
write that does so is excused from the checks for itself, never for what the controller makes of it.
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
from simulation.chaos.scenario import Act
from simulation.checks.invariants import InvariantChecker
from simulation.cluster.deployment import Deployment
from simulation.cluster.nodes import DRIVER, NodeShape, slice_name
from simulation.cluster.simulated import SimulatedCluster
from simulation.engine.trace import Trace

MARK = "example.com/touched"
"""An annotation that means nothing to anybody."""


class ExternalActors:
    """Everybody else."""

    def __init__(self, cluster: SimulatedCluster, invariants: InvariantChecker, trace: Trace) -> None:
        self._cluster = cluster
        self._server = cluster.server
        self._invariants = invariants
        self._trace = trace
        self._touched = 0
        self._swept_away: dict[str, Document] = {}
        """Specs of the Workloads that went with their namespace, and are still wanted."""
        cluster.namespace_controller.around = self._emptying
        self.expected: dict[str, str] = {}
        """The Workloads that users want to be there, with their UIDs."""
        self.rivals: list[Deployment] = []
        """Controllers that were started beside the Deployment."""
        self.held: list[ObjectKey] = []
        """Pods that their kubelet was told not to start."""

    def __repr__(self) -> str:
        return f"<Hands touched={self._touched} rivals={len(self.rivals)}>"

    @property
    def _store(self) -> Store:
        return self._server.store

    def _note(self, verb: str, kind: str, name: str, who: str = "hand") -> None:
        self._trace.add(who, verb, kind, name)

    # Users.

    def act(self, act: Act) -> None:
        """Do what a user or a worker's process does now, as far as it can be done."""
        openrl, key = self._cluster.workloads, self._cluster.workloads.pod_key(act.name)
        known = openrl.get(act.name)
        if act.what == "submit" and known is None and self._takes_workloads:
            self._note("submit", "workloads", act.name, "user")
            self._submit(act.body)
        elif act.what == "delete":
            self._unwant(act.name)
            if known is not None:
                self._note("delete", "workloads", act.name, "user")
                openrl.delete(act.name)
        elif act.what in {"succeed", "fail"} and self._runs(key):
            self._note(act.what, "pods", key.name, "kubelet")
            if act.what == "succeed":
                self._cluster.kubelet.succeed(key)
            else:
                self._cluster.kubelet.fail(key)

    def _submit(self, body: Mapping[str, Any]) -> None:
        self._cluster.workloads.submit(dict(body))
        name = body["metadata"]["name"]
        created = self._cluster.workloads.get(name)
        self.expected[name] = created["metadata"]["uid"] if created is not None else ""

    def _unwant(self, name: str) -> None:
        self.expected.pop(name, None)
        self._swept_away.pop(name, None)

    def _runs(self, key: ObjectKey) -> bool:
        pod = self._store.get(PODS, key)
        return pod is not None and not pod.deleting and pod.document["status"].get("phase") == "Running"

    # Between a read and a write.

    def touch(self, request: Request) -> None:
        """Change the object of a request in a way that harms nobody, so that its version is another one."""
        if self._server.document(request.kind, request.name, request.namespace) is None:
            return
        self._touched += 1
        patch = {"metadata": {"annotations": {MARK: str(self._touched)}}}
        self._server.patch(request.kind, request.name, request.namespace, patch)

    # By hand.

    def edit(self, rng: Random) -> None:
        """Remove a seat, a ledger, a claim, labels or a Pod."""
        deeds: tuple[tuple[Kind, Callable[[Record], None]], ...] = (
            (LEDGERS, self._remove_seat),
            (LEDGERS, self._delete_ledger),
            (CLAIMS, self._delete_claim),
            (CLAIMS, self._strip_labels),
            (PODS, self._delete_pod),
            (PODS, self._delete_pod),
            (PODS, self._strip_labels_of_pod),
            (WORKLOADS, self._force_out),
            (WORKLOADS, self._force_anew),
        )
        kind, deed = deeds[rng.randrange(len(deeds))]
        records = self._store.all(kind, self._cluster.workloads.namespace)
        if records:
            record = records[rng.randrange(len(records))]
            self._note(deed.__name__.strip("_"), kind.plural, record.key.name)
            with self._invariants.suspended():
                deed(record)

    def remove_seat(self, ledger: Record) -> None:
        """Take the first seat of a ledger away."""
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

    def _strip_labels(self, record: Record) -> None:
        self._server.edit(CLAIMS, record.key, lambda document: document["metadata"].pop("labels", None))

    def _strip_labels_of_pod(self, record: Record) -> None:
        self._server.edit(PODS, record.key, lambda document: document["metadata"].pop("labels", None))

    def _delete_pod(self, record: Record) -> None:
        self._server.delete(PODS, record.key.name, record.key.namespace)

    def _force_out(self, record: Record) -> None:
        """Delete a Workload and take its finalizer away: nobody releases what it holds."""
        self._unwant(record.key.name)
        if not record.deleting:
            self._server.delete(WORKLOADS, record.key.name, record.key.namespace)
        if self._store.get(WORKLOADS, record.key) is not None:
            self._server.edit(
                WORKLOADS, record.key, lambda document: document["metadata"].pop("finalizers", None)
            )

    def _force_anew(self, record: Record) -> None:
        """The same, and one of its name in the next moment."""
        self._force_out(record)
        body = record.copy()
        if self._takes_workloads:
            self._submit({**body, "metadata": {"name": record.key.name}, "status": None})

    def drain(self, node: str) -> None:
        """Cordon a node and delete its Pods."""
        self.close_node(node, "cordon")
        for pod in self._store.all(PODS):
            if pod.document["spec"].get("nodeName") == node and not pod.deleting:
                self._delete_pod(pod)

    def disrupt(self, rng: Random) -> None:
        """Evict or reject a Pod, or do not start the next one of its name."""
        pods = [
            pod
            for pod in self._store.all(PODS, self._cluster.workloads.namespace)
            if pod.document["spec"].get("nodeName") and not pod.deleting
        ]
        if not pods:
            return
        pod = pods[rng.randrange(len(pods))]
        phase = pod.document["status"].get("phase")
        how = rng.choice(("evict", "hold", "reject"))
        if how == "evict" and phase == "Running":
            self._note("evict", "pods", pod.key.name, "kubelet")
            self._cluster.kubelet.disrupt(pod.key)
        elif how == "reject" and phase == "Pending":
            self._note("reject", "pods", pod.key.name, "kubelet")
            self._cluster.kubelet.reject(pod.key)
        elif how == "hold":
            self._note("hold", "pods", pod.key.name, "kubelet")
            self._cluster.kubelet.hold(pod.key)
            self.held.append(pod.key)

    def let_all_start(self) -> None:
        """Start every Pod that was held."""
        for key in self.held:
            self._cluster.kubelet.let_start(key)
        self.held.clear()

    # The namespace.

    @property
    def _takes_workloads(self) -> bool:
        namespace = self._store.get(NAMESPACES, ObjectKey("", self._cluster.workloads.namespace))
        return namespace is not None and not namespace.deleting

    def delete_namespace(self) -> bool:
        """Delete the workers' namespace and all that is in it; false if that is under way."""
        if not self._takes_workloads:
            return False
        wanted = [record for record in self._store.all(WORKLOADS) if record.key.name in self.expected]
        self._swept_away = {record.key.name: record.copy()["spec"] for record in wanted}
        self.expected.clear()
        self._server.delete(NAMESPACES, self._cluster.workloads.namespace)
        return True

    def restore_namespace(self) -> bool:
        """Make it again once it is gone, with the Workloads that were wanted; returns whether it is there."""
        if self._takes_workloads:
            return True
        name = self._cluster.workloads.namespace
        if self._store.get(NAMESPACES, ObjectKey("", name)) is not None:
            return False
        self._note("restore", "namespaces", name)
        self._server.create(NAMESPACES, "", {"metadata": {"name": name}})
        for workload, spec in self._swept_away.items():
            self._submit({"metadata": {"name": workload}, "spec": spec})
        return True

    @contextmanager
    def _emptying(self, kind: Kind, record: Record) -> Iterator[None]:
        """A deletion by the namespace controller, which asks nobody."""
        if kind is CLAIMS:
            self._invariants.exempt(record.uid)
        with self._invariants.suspended():
            yield

    # Nodes and devices.

    def has_node(self, name: str) -> bool:
        """Whether the Node is there."""
        return self._store.get(NODES, ObjectKey("", name)) is not None

    def add_node(self, name: str, shape: NodeShape) -> None:
        """Make the Node again, unless it is there; its slice of before may not be collected yet."""
        if self.has_node(name):
            return
        if self._has_slice(name):
            self._server.delete(SLICES, slice_name(name))
        self._cluster.fleet.add_node(name, shape)

    def remove_node(self, name: str) -> None:
        """Delete the Node."""
        self._cluster.fleet.remove_node(name)

    def close_node(self, name: str, how: str) -> None:
        """Cordon, taint, or report the kubelet lost."""
        fleet = self._cluster.fleet
        if how == "cordon":
            fleet.cordon(name)
        elif how == "taint":
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
        """Take the node's slice away, or leave its pool incomplete."""
        if not self._has_slice(node):
            return
        if incomplete:
            self._cluster.fleet.set_devices(node, [], slice_count=2)
        else:
            self._server.delete(SLICES, slice_name(node))

    def publish_devices(self, node: str, shape: NodeShape) -> None:
        """Publish the node's devices as they were, whatever is published."""
        memories = [shape.gpu_memory] * shape.gpus
        if self._has_slice(node):
            self._cluster.fleet.set_devices(node, memories)
        else:
            uid = str(self._server.get(NODES, node).uid)
            self._cluster.fleet.publish_devices(node, uid, memories)

    def remove_device_class(self) -> None:
        """Delete the DeviceClass if it is there."""
        if self._store.get(DEVICE_CLASSES, ObjectKey("", DRIVER)) is not None:
            self._cluster.fleet.remove_device_class()

    def add_device_class(self) -> None:
        """Make the DeviceClass unless it is there."""
        self._cluster.fleet.ensure_device_class()
