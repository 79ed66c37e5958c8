"""Bugs planted in the use of failed attempts: where a worker is placed next."""

from __future__ import annotations

from contextlib import AbstractContextManager

from controller.api.dra import ResourceClaim
from controller.reconcile.backoff import PlaceHolds
from tests.simulation.plants.plant import replaced


def refusals_forgotten() -> AbstractContextManager[None]:
    """A refused worker may be placed on the same node again at once."""

    def add(_self: PlaceHolds, _worker_uid: str, _claim: ResourceClaim) -> None:
        return

    return replaced(PlaceHolds, "add", add)
