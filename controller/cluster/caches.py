"""The shared informers that the controller reads from: one watch per kind, with its indexes.

Reconciles read these stores and never list. Pods of other namespaces are cached too, for the host resources
that they use; everything else is limited to the workers' namespace and the cluster objects that placement
needs.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from controller.api.core import NODES, Node, Pod
from controller.api.dra import CLAIMS, DEVICE_CLASSES, SLICES, DeviceClass, ResourceClaim, ResourceSlice
from controller.api.pods import PODS, AnyPod, ForeignPod, is_workload
from controller.api.workload import WORKLOADS, Workload
from controller.runtime import logs
from informers.api import Api, ObjectKey, Resource, Selectors
from informers.cache.informer import SharedInformer
from informers.client.decoding import OwnerReference
from ledger.claim_names import MANAGED_LABEL, MANAGED_SELECTOR, MANAGED_VALUE, own_claim_name
from ledger.state import (
    CLAIM_LEDGERS_GROUP,
    CLAIM_LEDGERS_KIND,
    CLAIM_LEDGERS_PLURAL,
    CLAIM_LEDGERS_VERSION,
    ClaimLedger,
    decode,
)

CLAIM_LEDGERS: Resource[ClaimLedger] = Resource(
    CLAIM_LEDGERS_GROUP, CLAIM_LEDGERS_VERSION, CLAIM_LEDGERS_PLURAL, CLAIM_LEDGERS_KIND, True, decode
)

BY_WORKER = "worker"
"""Ledgers by the UIDs of the Workloads in their seats; Pods by the UID of the controlling Workload."""

BY_OWN_CLAIM = "own-claim"
"""Workloads by the first-choice name of their own claim, whether they created one or not."""

BY_CLAIM = "claim"
"""Pods by the ResourceClaims that they use, as `namespace/name`."""

_log = logs.get_logger(__name__)


@dataclass(frozen=True)
class Caches:
    """One shared informer per kind."""

    workloads: SharedInformer[Workload]
    ledgers: SharedInformer[ClaimLedger]
    claims: SharedInformer[ResourceClaim]
    pods: SharedInformer[AnyPod]
    nodes: SharedInformer[Node]
    slices: SharedInformer[ResourceSlice]
    device_classes: SharedInformer[DeviceClass]

    def pods_of(self, workload_uid: str) -> tuple[Pod, ...]:
        """Return the Pods that a Workload controls, by key."""
        found = self.pods.store.by_index(BY_WORKER, workload_uid)
        return tuple(pod for pod in found if isinstance(pod, Pod))

    def pods_on(self, claim: ObjectKey) -> tuple[Pod, ...]:
        """Return the Pods that use a ResourceClaim, by key."""
        found = self.pods.store.by_index(BY_CLAIM, str(claim))
        return tuple(pod for pod in found if isinstance(pod, Pod))

    def stuck(self) -> tuple[str, ...]:
        """Describe the informers that make no progress."""
        return tuple(reason for informer in self.all() if (reason := informer.stuck()) is not None)

    def all(self) -> tuple[SharedInformer[Any], ...]:
        """Return every informer, in the order of the fields."""
        return tuple(vars(self).values())


def make_caches(api: Api, namespace: str, rng: Random) -> Caches:
    """Create the informers of a controller that places workers in `namespace`, without starting them."""
    managed = Selectors(labels=MANAGED_SELECTOR)
    of_worker = partial(controlling_uids, namespace=namespace)
    return Caches(
        workloads=SharedInformer(
            api, WORKLOADS, namespace=namespace, rng=rng, indexes={BY_OWN_CLAIM: first_own_claim_name}
        ),
        ledgers=SharedInformer(
            api, CLAIM_LEDGERS, namespace=namespace, rng=rng, indexes={BY_WORKER: worker_uids}
        ),
        claims=SharedInformer(
            api, CLAIMS, namespace=namespace, selectors=managed, selects=is_managed, rng=rng
        ),
        pods=SharedInformer(api, PODS, rng=rng, indexes={BY_WORKER: of_worker, BY_CLAIM: used_claims}),
        nodes=SharedInformer(api, NODES, rng=rng),
        slices=SharedInformer(api, SLICES, rng=rng),
        device_classes=SharedInformer(api, DEVICE_CLASSES, rng=rng),
    )


def is_managed(claim: ResourceClaim) -> bool:
    """Return whether a claim has the label by which its list and watch select."""
    return claim.metadata.labels.get(MANAGED_LABEL) == MANAGED_VALUE


def first_own_claim_name(workload: Workload) -> Iterator[str]:
    """Yield the first-choice name of a Workload's own claim."""
    yield own_claim_name(workload.name, workload.uid)


def worker_uids(ledger: ClaimLedger) -> Iterator[str]:
    """Return the UIDs of the Workloads that have a seat in a ledger."""
    return (seat.workload_uid for seat in ledger.seats)


def controlling_uids(pod: AnyPod, namespace: str) -> Iterable[str]:
    """Return the UID of the Workload that controls a Pod. Owner references do not cross namespaces."""
    owner = controlling_workload(pod) if pod.metadata.namespace == namespace else None
    return () if owner is None else (owner.uid,)


def used_claims(pod: AnyPod) -> Iterable[str]:
    """Return the claims that a Pod uses by name, as `namespace/name`."""
    if isinstance(pod, ForeignPod):
        return ()
    return [f"{pod.metadata.namespace}/{name}" for name in pod.claim_names]


def controlling_workload(pod: AnyPod) -> OwnerReference | None:
    """Return the controller reference of a Pod if it names a Workload of our API group.

    A Pod may lose that reference, for example if its Workload is deleted with `--cascade=orphan`. It still
    belongs to the Workload, which the annotation names, and still holds the seat.
    """
    if isinstance(pod, ForeignPod):
        return None
    controller = next((owner for owner in pod.metadata.owner_references if owner.controller), None)
    if controller is not None:
        return controller if is_workload(controller) else None
    name, _, uid = pod.metadata.annotations.workload.partition("/")
    reference = OwnerReference(WORKLOADS.api_version, WORKLOADS.kind, name, uid, controller=True)
    return reference if uid else None


def is_pod_of(pod: AnyPod, workload_uid: str) -> bool:
    """Return whether a Pod is a Workload's, by its owner reference or its annotation."""
    owner = controlling_workload(pod)
    return owner is not None and owner.uid == workload_uid


async def freeze_when_synced(caches: Caches) -> None:
    """Once all first lists are cached, collect garbage, and exclude what remains from later collections.

    A collection stops the event loop, for a tenth of a second in a process that caches a hundred thousand
    Pods. The objects of the first lists live as long as the process. A frozen object is still freed when its
    last reference is dropped; only cycles would leak, and the caches hold none. Use it only in a process that
    runs one controller until it exits, because nothing unfreezes the objects.
    """
    for informer in caches.all():
        await informer.wait_for_sync(math.inf)
    gc.collect()
    gc.freeze()
    _log.debug("Froze cached objects for the garbage collector", objects=gc.get_freeze_count())
