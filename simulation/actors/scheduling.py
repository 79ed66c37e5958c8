"""One attempt to schedule a Pod: its node and devices, or why no node fits.

An attempt reads the store and writes nothing. Filters run first and devices last, in the order of
kube-scheduler's plugins. Nodes rank by the Pod's preference, then by the earliest alternative, then by
requested memory, then by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from informers.api import ObjectKey
from placement.types import DeviceID
from simulation.actors.cel import CelError
from simulation.actors.devices import Allocation, Inventory, allocate, allocated_devices, requested_classes
from simulation.actors.fitting import (
    RESOURCE_REASONS,
    Use,
    fits_when_empty,
    preference,
    rejections,
    request_of,
    selected,
    uses,
)
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, DEVICE_CLASSES, NODES, PODS
from simulation.apiserver.store import Store

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
PINNED = "resourceclaim not available on the node"


@dataclass(frozen=True)
class Placement:
    """The node of a Pod, and the allocations of its unallocated claims."""

    node: str
    allocations: Mapping[ObjectKey, Allocation]


@dataclass(frozen=True)
class Unschedulable:
    """No node fits the Pod."""

    message: str
    needs_freed_resources: bool = False
    """Whether the end of another Pod can help."""
    to_deallocate: ObjectKey | None = None
    """A claim that is allocated elsewhere and used by no other Pod: PostFilter deallocates it."""


@dataclass(frozen=True)
class Gated:
    """The Pod is not tried: a claim is missing or being deleted."""


@dataclass(frozen=True)
class Errored:
    """The attempt itself failed."""

    message: str


SchedulingResult = Placement | Unschedulable | Gated | Errored


@dataclass
class _Rejections:
    """Counts of the reasons of all nodes, for the message."""

    nodes: int
    has_claims: bool
    reasons: Counter[str] = field(default_factory=Counter)
    to_deallocate: ObjectKey | None = None
    preemptible: int = 0
    """Nodes that would fit the Pod if they ran no other."""

    def result(self) -> Unschedulable:
        return Unschedulable(
            f"0/{self.nodes} nodes are available: {_counted(self.reasons)}. {self._post_filter_message()}",
            needs_freed_resources=any(reason in self.reasons for reason in RESOURCE_REASONS),
            to_deallocate=self.to_deallocate,
        )

    def for_all_nodes(self, reason: str) -> Unschedulable:
        """Return a rejection by all nodes with one reason."""
        return Unschedulable(f"0/{self.nodes} nodes are available: {reason}. {self._post_filter_message()}")

    def _post_filter_message(self) -> str:
        """Return the messages of the PostFilter plugins: devices first, then preemption."""
        not_preemptible = self.nodes - self.preemptible
        tried = {"No preemption victims found for incoming pod": self.preemptible}
        tried["Preemption is not helpful for scheduling"] = not_preemptible
        outcome = _counted({reason: count for reason, count in tried.items() if count})
        claims = "still not schedulable" if self.has_claims else "no new claims to deallocate"
        if self.to_deallocate is not None:
            claims = "deallocation of ResourceClaim completed"
        return f"{claims}, preemption: 0/{self.nodes} nodes are available: {outcome}."


class Attempt:
    """One scheduling attempt for one Pod over the whole cluster."""

    def __init__(self, store: Store, inventory: Inventory, pod: Record, assumed: Mapping[str, str]) -> None:
        self._store = store
        self._assumed = assumed
        self._inventory = inventory
        self._pod = pod
        self._request = request_of(pod)

    def run(self) -> SchedulingResult:
        """Return the result of the attempt."""
        claims = list(self._claims())
        if any(claim is None or claim.deleting for claim in claims):
            return Gated()
        present = [claim for claim in claims if claim is not None]
        nodes = self._store.all(NODES)
        if not nodes:
            return Unschedulable("no nodes available to schedule pods")
        classes = {record.key.name: record.document for record in self._store.all(DEVICE_CLASSES)}
        for claim in present:
            for request, name in requested_classes(claim.document):
                if name not in classes and not _allocation(claim):
                    reason = f"request {request}: device class {name} does not exist"
                    return _Rejections(len(nodes), has_claims=False).for_all_nodes(reason)
        try:
            return self._place(nodes, present, classes)
        except CelError as error:
            return Errored(f"running Filter plugin: {error}")

    def _claims(self) -> Iterator[Record | None]:
        for entry in self._pod.document["spec"].get("resourceClaims") or ():
            key = ObjectKey(self._pod.key.namespace, entry.get("resourceClaimName", ""))
            yield self._store.get(CLAIMS, key)

    def _place(
        self, nodes: list[Record], claims: list[Record], classes: Mapping[str, Document]
    ) -> Placement | Unschedulable:
        used = uses(self._store.all(PODS), self._assumed)
        allocated = allocated_devices(self._store.all(CLAIMS))
        totals = _Rejections(len(nodes), has_claims=bool(claims))
        feasible: list[tuple[tuple[int, int, int, str], Placement]] = []
        for node in nodes:
            name = node.key.name
            use = used.get(name, Use())
            reasons = list(rejections(self._pod.document, self._request, node, use))
            if reasons and all(reason in RESOURCE_REASONS for reason in reasons):
                totals.preemptible += fits_when_empty(self._pod.document, self._request, node)
            if not reasons:
                pinned = [claim for claim in claims if _is_elsewhere(claim, node)]
                unused = (claim.key for claim in pinned if _is_used_by_no_other(claim, self._pod.uid))
                totals.to_deallocate = totals.to_deallocate or next(unused, None)
                reasons = [PINNED] if pinned else []
            allocations = None if reasons else self._allocate(name, claims, classes, allocated)
            if allocations is None:
                invalid = name in self._inventory.invalid_nodes
                totals.reasons.update(reasons or [INVALID_POOLS if invalid else CANNOT_ALLOCATE])
                continue
            rank = sum(allocation.rank for allocation in allocations.values())
            score = (-preference(self._pod.document, node), rank, use.memory_bytes, name)
            feasible.append((score, Placement(name, allocations)))
        return min(feasible, key=lambda item: item[0])[1] if feasible else totals.result()

    def _allocate(
        self,
        node: str,
        claims: list[Record],
        classes: Mapping[str, Document],
        allocated: frozenset[DeviceID],
    ) -> dict[ObjectKey, Allocation] | None:
        """Return devices of the node for the unallocated claims, `None` if there are not enough."""
        allocations: dict[ObjectKey, Allocation] = {}
        for claim in claims:
            if _allocation(claim) is None:
                devices = self._inventory.devices.get(node, ())
                found = allocate(claim.document, devices, classes, allocated)
                if found is None:
                    return None
                allocations[claim.key] = found
        return allocations


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def _is_elsewhere(claim: Record, node: Record) -> bool:
    """Return whether the claim is allocated to a place other than the node."""
    selector = (_allocation(claim) or {}).get("nodeSelector")
    return selector is not None and not selected(selector, node)


def _is_used_by_no_other(claim: Record, pod_uid: str) -> bool:
    consumers = (claim.document.get("status") or {}).get("reservedFor") or ()
    return all(consumer["uid"] == pod_uid for consumer in consumers)


def _allocation(claim: Record) -> Document | None:
    return (claim.document.get("status") or {}).get("allocation")
