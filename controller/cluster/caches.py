"""The shared informers that the controller reads from: one watch per kind, with the indexes it needs.

Reconciles read these stores and never list. Foreign Pods are held too, for the host resources that they
take; everything else is limited to the workers' namespace or to what placement needs of the cluster.

Keeps the garbage collector from walking the caches over and over.

The collector stops the event loop, and a full collection of a process that holds a hundred thousand Pods
takes a tenth of a second. What the first lists brought lives as long as the process, so it is set aside once.
What is set aside is still freed when nothing refers to it any more; only cycles among it would stay, and the
caches hold none.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
from ledger.names import MANAGED_LABEL, MANAGED_SELECTOR, MANAGED_VALUE, own_claim_name
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
"""Ledgers by the UIDs of the Workloads seated in them; Pods by the UID of the Workload that controls them."""

BY_OWN_CLAIM = "own-claim"
"""Workloads by the name that their own claim has, if they found one (its first choice)."""

BY_CLAIM = "claim"
"""Pods by the ResourceClaims that they name, as `namespace/name`."""


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
        """The Pods that a Workload controls, in the order of their keys."""
        found = self.pods.store.by_index(BY_WORKER, workload_uid)
        return tuple(pod for pod in found if isinstance(pod, Pod))

    def pods_on(self, claim: ObjectKey) -> tuple[Pod, ...]:
        """The Pods that name a ResourceClaim, in the order of their keys."""
        found = self.pods.store.by_index(BY_CLAIM, str(claim))
        return tuple(pod for pod in found if isinstance(pod, Pod))

    def stuck(self) -> tuple[str, ...]:
        """Which informers show no sign of life, in words for people."""
        return tuple(reason for informer in self.all() if (reason := informer.stuck()) is not None)

    def all(self) -> tuple[SharedInformer[Any], ...]:
        """Every informer, in the order in which they are started and reported."""
        return (
            self.workloads,
            self.ledgers,
            self.claims,
            self.pods,
            self.nodes,
            self.slices,
            self.device_classes,
        )


def make_caches(api: Api, namespace: str, rng: Random) -> Caches:
    """The informers of a controller that places workers in `namespace`; nothing is started."""
    managed = Selectors(labels=MANAGED_SELECTOR)
    return Caches(
        workloads=SharedInformer(
            api, WORKLOADS, namespace=namespace, rng=rng, indexes={BY_OWN_CLAIM: first_own_claim_name}
        ),
        ledgers=SharedInformer(
            api, CLAIM_LEDGERS, namespace=namespace, rng=rng, indexes={BY_WORKER: seated_uids}
        ),
        claims=SharedInformer(
            api, CLAIMS, namespace=namespace, selectors=managed, selects=is_managed, rng=rng
        ),
        pods=SharedInformer(api, PODS, rng=rng, indexes={BY_WORKER: controlling_uids, BY_CLAIM: used_claims}),
        nodes=SharedInformer(api, NODES, rng=rng),
        slices=SharedInformer(api, SLICES, rng=rng),
        device_classes=SharedInformer(api, DEVICE_CLASSES, rng=rng),
    )


def is_managed(claim: ResourceClaim) -> bool:
    """Whether a claim has the label by which list and watch select ours."""
    return claim.metadata.labels.get(MANAGED_LABEL) == MANAGED_VALUE


def first_own_claim_name(workload: Workload) -> Iterator[str]:
    """The name under which a Workload founds its own claim."""
    yield own_claim_name(workload.name, workload.uid)


def seated_uids(ledger: ClaimLedger) -> Iterator[str]:
    """UIDs of the Workloads that have a seat in a ledger."""
    return (seat.workload_uid for seat in ledger.seats)


def controlling_uids(pod: AnyPod) -> Iterable[str]:
    """UID of the Workload that controls a Pod."""
    owner = controlling_workload(pod)
    return () if owner is None else (owner.uid,)


def used_claims(pod: AnyPod) -> Iterable[str]:
    """The claims that a Pod uses by name, as `namespace/name`."""
    if isinstance(pod, ForeignPod):
        return ()
    return [f"{pod.metadata.namespace}/{name}" for name in pod.claim_names]


def controlling_workload(pod: AnyPod) -> OwnerReference | None:
    """The controller reference of a Pod, where it names a Workload of our API group."""
    if isinstance(pod, ForeignPod):
        return None
    owners = pod.metadata.owner_references
    return next((owner for owner in owners if owner.controller and is_workload(owner)), None)


_log = logs.get_logger(__name__)


async def freeze_when_synced(caches: Caches) -> None:
    """Wait for every cache's first list, collect once, and have later collections leave out what is there.

    For a process that runs one controller until it ends: nothing takes this back.
    """
    for informer in caches.all():
        await informer.wait_for_sync(math.inf)
    gc.collect()
    gc.freeze()
    _log.debug("Set the caches aside for the garbage collector", objects=gc.get_freeze_count())
