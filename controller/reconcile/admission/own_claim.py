"""The document of a worker's own claim, which an attempt and a probe send alike."""

from __future__ import annotations

from typing import Any

from controller.api.claim_document import claim_document
from controller.reconcile.context import ReconcileContext
from placement.device_request import device_requests
from placement.shape_catalog import open_shape
from placement.types import PlacementRequest


def own_claim_document(
    context: ReconcileContext, name: str, ledger_uid: str, request: PlacementRequest
) -> Any:
    """Build a claim for the shapes of today's fleet.

    Without a shape that fits, the claim accepts every larger device. No device can satisfy it now: it is the
    demand that a cluster autoscaler acts on.
    """
    settings = context.settings
    requests = device_requests(
        context.fleet.device_shapes(request) or (open_shape(request),),
        memory_bytes=request.memory_bytes,
        device_class=settings.device_class,
        driver=settings.device_driver,
        attributes=request.attributes,
        single_allocation=context.fleet.has_multiple_allocations,
    )
    return claim_document(name, settings.namespace, ledger_uid, requests)
