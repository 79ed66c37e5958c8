"""One attempt to schedule a Pod: where it goes and with which devices, or why it goes nowhere.

Pure: everything is read from the store, nothing is written. Filters come first, devices last, as in the
order of kube-scheduler's plugins; the best node is the one that the Pod prefers most, then the one with the
earliest alternative, then the emptiest, then the first by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from informers.api import ObjectKey
from placement.types import DeviceID
from simulation.actors.cel import CelError
from simulation.actors.devices import Allocation, Inventory, allocate, requested_classes, taken_devices
from simulation.actors.fitting import (
    ROOM_REASONS,
    Use,
    fits_when_empty,
    preference,
    refusals_of,
    request_of,
    selected,
    uses,
)
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import CLAIMS, DEVICE_CLASSES, NODES, PODS
from simulation.apiserver.store import Store

CANNOT_ALLOCATE = "cannot allocate all claims"
PINNED = "resourceclaim not available on the node"


@dataclass(frozen=True)
class Placement:
    """Where a Pod goes, and what each of its unallocated claims gets."""

    node: str
    allocations: Mapping[ObjectKey, Allocation]


@dataclass(frozen=True)
class Unschedulable:
    """No node takes it."""

    message: str
    is_waiting: bool = False
    """Whether the end of another Pod may help."""
    given_up: ObjectKey | None = None
    """A claim whose allocation kept it from a node and is used by nobody else: PostFilter clears it."""


@dataclass(frozen=True)
class Gated:
    """It is not tried at all: a claim is missing or being deleted."""


@dataclass(frozen=True)
class Errored:
    """The attempt itself failed."""

    message: str


Verdict = Placement | Unschedulable | Gated | Errored


@dataclass
class _Refusals:
    """Reasons by node, on the way to a message."""

    nodes: int
    has_claims: bool
    reasons: Counter[str] = field(default_factory=Counter)
    given_up: ObjectKey | None = None
    crowded: int = 0
    """Nodes that would take the Pod if no other were there."""

    def verdict(self) -> Unschedulable:
        return Unschedulable(
            f"0/{self.nodes} nodes are available: {_counted(self.reasons)}. {self._afterwards()}",
            is_waiting=any(reason in self.reasons for reason in ROOM_REASONS),
            given_up=self.given_up,
        )

    def for_all(self, reason: str) -> Unschedulable:
        """A refusal before any node was looked at."""
        return Unschedulable(f"0/{self.nodes} nodes are available: {reason}. {self._afterwards()}")

    def _afterwards(self) -> str:
        """What the plugins say that try to make room: devices first, then preemption."""
        hopeless = self.nodes - self.crowded
        tried = {"No preemption victims found for incoming pod": self.crowded}
        tried["Preemption is not helpful for scheduling"] = hopeless
        outcome = _counted({reason: count for reason, count in tried.items() if count})
        claims = "still not schedulable" if self.has_claims else "no new claims to deallocate"
        if self.given_up is not None:
            claims = "deallocation of ResourceClaim completed"
        return f"{claims}, preemption: 0/{self.nodes} nodes are available: {outcome}."


class Attempt:
    """One look at the whole cluster for one Pod."""

    def __init__(self, store: Store, inventory: Inventory, pod: Record, assumed: Mapping[str, str]) -> None:
        self._store = store
        self._assumed = assumed
        self._inventory = inventory
        self._pod = pod
        self._request = request_of(pod)

    def decide(self) -> Verdict:
        """The verdict of this moment."""
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
                    fault = f"request {request}: device class {name} does not exist"
                    return _Refusals(len(nodes), has_claims=False).for_all(fault)
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
        taken = taken_devices(self._store.all(CLAIMS))
        refusals = _Refusals(len(nodes), has_claims=bool(claims))
        feasible: list[tuple[tuple[int, int, int, str], Placement]] = []
        for node in nodes:
            name = node.key.name
            use = used.get(name, Use())
            reasons = list(refusals_of(self._pod.document, self._request, node, use))
            if reasons and all(reason in ROOM_REASONS for reason in reasons):
                refusals.crowded += fits_when_empty(self._request, node)
            if not reasons:
                pinned = [claim for claim in claims if _is_elsewhere(claim, node)]
                unused = (claim.key for claim in pinned if _is_for_nobody_but(claim, self._pod.uid))
                refusals.given_up = refusals.given_up or next(unused, None)
                reasons = [PINNED] if pinned else []
            allocations = None if reasons else self._allocate(name, claims, classes, taken)
            if allocations is None:
                refusals.reasons.update(reasons or [CANNOT_ALLOCATE])
                continue
            rank = sum(allocation.rank for allocation in allocations.values())
            score = (-preference(self._pod.document, node), rank, use.memory_bytes, name)
            feasible.append((score, Placement(name, allocations)))
        return min(feasible, key=lambda item: item[0])[1] if feasible else refusals.verdict()

    def _allocate(
        self,
        node: str,
        claims: list[Record],
        classes: Mapping[str, Document],
        taken: frozenset[DeviceID],
    ) -> dict[ObjectKey, Allocation] | None:
        """Devices of the node for the claims that have none, `None` if there are not enough."""
        allocations: dict[ObjectKey, Allocation] = {}
        for claim in claims:
            if _allocation(claim) is None:
                found = allocate(claim.document, self._inventory.get(node, ()), classes, taken)
                if found is None:
                    return None
                allocations[claim.key] = found
        return allocations


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def _is_elsewhere(claim: Record, node: Record) -> bool:
    """Whether the claim is allocated and cannot be used on the node."""
    selector = (_allocation(claim) or {}).get("nodeSelector")
    return selector is not None and not selected(selector, node)


def _is_for_nobody_but(claim: Record, pod_uid: str) -> bool:
    consumers = (claim.document.get("status") or {}).get("reservedFor") or ()
    return all(consumer["uid"] == pod_uid for consumer in consumers)


def _allocation(claim: Record) -> Document | None:
    return (claim.document.get("status") or {}).get("allocation")
