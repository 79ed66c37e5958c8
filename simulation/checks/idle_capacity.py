"""No idle capacity (contract §8.8): no worker waits while a seat or device that it could use is free.

The check uses only the server's objects, and the simulated scheduler's arithmetic for free node resources. It
is valid only for a cluster at rest, when back-offs and kube-scheduler's own five minutes are over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from informers.api import ObjectKey
from placement.quantity import parse_bytes
from placement.types import Amounts
from simulation.actors.devices import allocated_devices, allocation_results, read_inventory
from simulation.actors.fitting import Use, fits, request_of, uses
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, DEVICE_TAINT_RULES, LEDGERS, NODES, PODS, SLICES, WORKLOADS
from simulation.apiserver.server import ApiServer
from simulation.cluster.nodes import DRIVER, ENABLED_LABEL
from simulation.cluster.workloads import worker_pod_name

ROLES = ("trainer", "sampler")
SEATS_MAX = 256
"""The maximum number of consumers of one claim in DRA."""

GIB = 2**30


@dataclass(frozen=True)
class Need:
    """The request of a waiting worker."""

    name: str
    role: str
    memory_bytes: int
    devices: int
    shares: bool
    request: Amounts
    pod: Document
    """Its Pod or, until it has one, its template."""


class IdleCapacity:
    """A snapshot of one server, checked for idle capacity (contract §8.8)."""

    def __init__(self, server: ApiServer, namespace: str, limit: int) -> None:
        store = server.store
        self._limit = limit or SEATS_MAX
        self._namespace = namespace
        self._workloads = store.all(WORKLOADS, namespace)
        self._ledgers = store.all(LEDGERS, namespace)
        self._claims = {record.key: record for record in store.all(CLAIMS)}
        self._pods = {record.key: record for record in store.all(PODS)}
        self._nodes = {record.key.name: record for record in store.all(NODES)}
        self._devices = read_inventory(store.all(SLICES), store.all(DEVICE_TAINT_RULES)).devices
        self._allocated = allocated_devices(self._claims.values())
        self._memory = {
            device.identity: device.cel.capacity_of(DRIVER).get("memory", 0)
            for devices in self._devices.values()
            for device in devices
        }
        self._uses = uses(self._pods.values())
        self._add_unbound_seats()

    def __repr__(self) -> str:
        return f"<IdleCapacity workloads={len(self._workloads)} nodes={len(self._nodes)}>"

    def violations(self) -> Iterator[str]:
        """Yield one sentence per waiting worker and free place."""
        for need in self.waiting():
            if need.shares:
                for ledger in self._ledgers:
                    if self.has_seat(ledger, need):
                        claim = ledger.document["spec"]["claimName"]
                        yield f"{need.name} waits although {claim} has a free seat"
            for node in self._nodes.values():
                if self._has_devices(node, need):
                    yield f"{need.name} waits although {node.key.name} has free devices"

    def waiting(self) -> Iterator[Need]:
        """Yield the requests of the waiting workers."""
        for workload in self._workloads:
            status = workload.document.get("status") or {}
            if status.get("phase") != "Pending" or workload.deleting:
                continue
            pod = self._pods.get(ObjectKey(self._namespace, worker_pod_name(workload.key.name)))
            spec = workload.document["spec"]
            devices = spec["accelerator"].get("devices") or 1
            template = Record({"metadata": {"name": "template"}, **spec["template"]})
            yield Need(
                workload.key.name,
                spec["role"],
                parse_bytes(str(spec["accelerator"]["memory"])),
                devices,
                devices == 1 and not spec.get("exclusive"),
                request_of(pod or template),
                (pod or template).document,
            )

    # A seat.

    def has_seat(self, ledger: Record, need: Need) -> bool:
        """Return whether a worker could join the claim of a ledger now."""
        seats = ledger.document["spec"].get("seats") or []
        claim = self._claims.get(ObjectKey(self._namespace, ledger.document["spec"]["claimName"]))
        if claim is None or claim.deleting or not 0 < len(seats) < self._limit:
            return False
        if any(seat.get("exclusive") or seat["workload"] == need.name for seat in seats):
            return False
        results = allocation_results(claim.document)
        if len(results) != 1:
            return False
        held = [
            key
            for key in self._memory
            if (key.pool, key.device) == (results[0]["pool"], results[0]["device"])
        ]
        node = self._nodes.get(held[0].pool) if held else None
        return node is not None and self._memory[held[0]] >= need.memory_bytes and self._fits_node(node, need)

    # Devices.

    def _has_devices(self, node: Record, need: Need) -> bool:
        free = [
            device
            for device in self._devices.get(node.key.name, ())
            if device.identity not in self._allocated and self._memory[device.identity] >= need.memory_bytes
        ]
        return len(free) >= need.devices and self._fits_node(node, need)

    # Nodes.

    def _fits_node(self, node: Record, need: Need) -> bool:
        labels, spec = node.metadata.get("labels") or {}, node.document.get("spec") or {}
        if labels.get(ENABLED_LABEL) != "true" or spec.get("unschedulable") or spec.get("taints"):
            return False
        roles = [role for role in ROLES if labels.get(f"openrl.io/{role}") is not None]
        if roles and labels.get(f"openrl.io/{need.role}") != "true":
            return False
        return fits(need.pod, need.request, node, self._uses.get(node.key.name, Use()))

    def _add_unbound_seats(self) -> None:
        """Add the requests of seats whose Pods are not bound yet to the node usage."""
        for ledger in self._ledgers:
            claim = self._claims.get(ObjectKey(self._namespace, ledger.document["spec"]["claimName"]))
            results = allocation_results(claim.document) if claim is not None else []
            for seat in ledger.document["spec"].get("seats") or () if results else ():
                pod = self._pods.get(ObjectKey(self._namespace, worker_pod_name(seat["workload"])))
                if pod is None or not pod.document["spec"].get("nodeName"):
                    use = self._uses.setdefault(results[0]["pool"], Use())
                    use.add(Amounts(memory_bytes=parse_bytes(seat.get("hostRequest") or "0"), cpu_millis=0))
