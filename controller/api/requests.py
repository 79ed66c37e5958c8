"""From a Workload to the request that placement and the ledger decide on: the only place that builds one.

Every consumer (selection, booking, explanation) therefore sees the same memory, owner and seat limit
(contract §3). What is wrong with a spec is found here, before anything is booked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.api.convert import template_resources, template_tolerations
from controller.api.reasons import ReasonCode
from controller.api.template_rules import template_fault
from controller.api.workload import Workload
from placement.pod_requests import effective_request
from placement.quantity import parse_bytes
from placement.types import MAX_SEATS, Amounts, PlacementRequest, Role, Toleration

MIN_DEVICES = 2
"""A MultiGPU worker has at least this many devices."""

ACCELERATOR_TYPES = ("GPU",)
"""Types that have a device class; the API accepts more than can be placed."""


class InvalidWorkloadError(Exception):
    """The spec or template cannot be placed, ever: the Workload fails with this code and detail."""

    def __init__(self, code: ReasonCode, detail: str) -> None:
        super().__init__(f"{code.value}: {detail}")
        self.code = code
        self.detail = detail


def effective_seat_limit(max_seats_per_claim: int) -> int:
    """The limit that selection and booking use: the setting, or DRA's own ceiling where it is 0."""
    return max_seats_per_claim or MAX_SEATS


def build_request(workload: Workload, max_seats_per_claim: int) -> PlacementRequest:
    """What this worker asks for. Raises `InvalidWorkloadError` where that cannot be read from the spec."""
    spec = workload.spec
    return PlacementRequest(
        worker=workload.name,
        worker_uid=workload.uid,
        role=_role(spec.role),
        memory_bytes=_memory_bytes(spec.accelerator.memory),
        devices=_devices(workload),
        exclusive=spec.exclusive,
        owner_key=workload.owner_key,
        host=_host(spec.template),
        tolerations=_tolerations(spec.template),
        seat_limit=effective_seat_limit(max_seats_per_claim),
        seat_limit_is_set=max_seats_per_claim > 0,
    )


class PlacementRequests:
    """The request of each Workload, built once: its spec cannot change."""

    def __init__(self, max_seats_per_claim: int) -> None:
        self._max_seats_per_claim = max_seats_per_claim
        self._built: dict[str, PlacementRequest | None] = {}

    def __repr__(self) -> str:
        return f"<Requests built={len(self._built)}>"

    def of(self, workload: Workload) -> PlacementRequest | None:
        """What this worker asks for; `None` where its spec cannot be read (see `validate` for the reason)."""
        try:
            return self._built[workload.uid]
        except KeyError:
            request = self._built[workload.uid] = self._build(workload)
            return request

    def validate(self, workload: Workload) -> PlacementRequest:
        """The request of a Workload that holds nothing yet. Raises `InvalidWorkloadError`."""
        check_kind(workload)
        return self.of(workload) or build_request(workload, self._max_seats_per_claim)

    def forget(self, workload: Workload) -> None:
        """The Workload is gone."""
        self._built.pop(workload.uid, None)

    def _build(self, workload: Workload) -> PlacementRequest | None:
        try:
            return build_request(workload, self._max_seats_per_claim)
        except InvalidWorkloadError:
            return None


def validate(workload: Workload, max_seats_per_claim: int) -> PlacementRequest:
    """The request of a Workload that holds nothing yet; its template is checked too.

    Raises `InvalidWorkloadError` with one sentence that names the field, the value and what is allowed.
    """
    check_kind(workload)
    return build_request(workload, max_seats_per_claim)


def check_kind(workload: Workload) -> None:
    """Raises `InvalidWorkloadError` for an accelerator without a class, or a template that breaks a rule."""
    accelerator = workload.spec.accelerator
    if accelerator.type not in ACCELERATOR_TYPES:
        allowed = ", ".join(ACCELERATOR_TYPES)
        raise _invalid(f"accelerator.type: {accelerator.type!r} has no device class here; allowed: {allowed}")
    fault = template_fault(workload.spec.template, worker_container=workload.spec.worker_container_name)
    if fault:
        raise InvalidWorkloadError(ReasonCode.INVALID_TEMPLATE, fault)


def _invalid(detail: str) -> InvalidWorkloadError:
    return InvalidWorkloadError(ReasonCode.INVALID_SPEC, detail)


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        allowed = ", ".join(role.value for role in Role)
        raise _invalid(f"role: {text!r} is not one of {allowed}") from None


def _memory_bytes(quantity: object) -> int:
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise _invalid(f"accelerator.memory: {quantity!r} is not a quantity such as 60Gi")
    try:
        memory_bytes = parse_bytes(quantity)
    except ValueError as error:
        raise _invalid(f"accelerator.memory: {error}") from error
    if memory_bytes <= 0:
        raise _invalid(f"accelerator.memory: {quantity!r} must be more than 0")
    return memory_bytes


def _devices(workload: Workload) -> int:
    accelerator = workload.spec.accelerator
    match accelerator.mode, accelerator.devices:
        case "SingleGPU", None:
            return 0
        case "SingleGPU", devices:
            raise _invalid(f"accelerator.devices: {devices!r} is for mode MultiGPU only")
        case "MultiGPU", int(devices) if devices >= MIN_DEVICES:
            return devices
        case "MultiGPU", devices:
            raise _invalid(f"accelerator.devices: {devices!r} must be a whole number from {MIN_DEVICES} up")
        case mode, _:
            raise _invalid(f"accelerator.mode: {mode!r} is not one of SingleGPU, MultiGPU")


def _host(template: Mapping[str, Any]) -> Amounts:
    try:
        return effective_request(template_resources(template.get("spec", {})))
    except ValueError as error:
        raise InvalidWorkloadError(ReasonCode.INVALID_TEMPLATE, f"template.spec: {error}") from error


def _tolerations(template: Mapping[str, Any]) -> tuple[Toleration, ...]:
    try:
        return template_tolerations(template.get("spec", {}).get("tolerations", ()))
    except ValueError as error:
        raise InvalidWorkloadError(
            ReasonCode.INVALID_TEMPLATE, f"template.spec.tolerations: {error}"
        ) from error
