"""Bugs planted in the use of failed attempts: where a worker is placed next, and what its Pod needs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.pods import AnyPod
from controller.api.requests import PlacementRequests
from controller.api.workload import Workload
from controller.cluster import caches
from controller.reconcile.backoff import PlaceHolds
from tests.simulation.plants.plant import replaced


def refusals_forgotten() -> AbstractContextManager[None]:
    """A refused worker may be placed on the same node again at once."""

    def add(_self: PlaceHolds, _worker_uid: str, _claim: ResourceClaim) -> None:
        return

    return replaced(PlaceHolds, "add", add)


def needs_of_the_template() -> AbstractContextManager[None]:
    """Additions by admission to a Pod are ignored."""

    def learn(_self: PlacementRequests, _workload: Workload, _pod: Pod) -> bool:
        return False

    return replaced(PlacementRequests, "learn", learn)


def owners_of_any_namespace() -> AbstractContextManager[None]:
    """A Pod of any namespace counts as a worker's, if its owner references say so."""

    def controlling_uids(pod: AnyPod, _namespace: str) -> Iterable[str]:
        owner = caches.controlling_workload(pod)
        return () if owner is None else (owner.uid,)

    return replaced(caches, "controlling_uids", controlling_uids)
