"""Build the placement and seat requests of a Workload, and validate its spec and template.

Only this module builds a `PlacementRequest` or a `SeatRequest`. Selection, booking and explanation therefore
use the same memory, owner and seat limit (contract §3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from controller.api.convert import template_request, template_tolerations
from controller.api.core import Pod
from controller.api.pods import effective_request_of
from controller.api.reasons import ReasonCode
from controller.api.template_rules import InvalidTemplateError, check_template
from controller.api.workload import UndecodableSpec, Workload
from ledger.seat_rules import SeatRequest
from placement.quantity import canonical_bytes, parse_bytes
from placement.types import MAX_SEATS, MIB, Amounts, PlacementRequest, Role

T = TypeVar("T")

_MIN_DEVICES = 2
"""Minimum number of devices of a MultiGPU worker."""

_ACCELERATOR_TYPES = ("GPU",)
"""The accelerator types that have a device class. The API also accepts others."""


class InvalidWorkloadError(Exception):
    """The spec or template is invalid. The Workload fails with this code and detail."""

    def __init__(self, code: ReasonCode, detail: str) -> None:
        super().__init__(f"{code.value}: {detail}")
        self.code = code
        self.detail = detail


class PlacementRequests:
    """The placement request of each Workload. It is built once, because a spec is immutable."""

    def __init__(self, max_seats_per_claim: int) -> None:
        self.seat_limit = max_seats_per_claim or MAX_SEATS
        """The effective limit, for selection and booking alike."""
        self._seat_limit_is_set = max_seats_per_claim > 0
        self._by_uid: dict[str, PlacementRequest | None] = {}

    def of(self, workload: Workload) -> PlacementRequest | None:
        """Return the request of a Workload; `None` if its spec is invalid."""
        if workload.uid not in self._by_uid:
            try:
                self._by_uid[workload.uid] = self._build(workload)
            except InvalidWorkloadError:
                self._by_uid[workload.uid] = None
        return self._by_uid[workload.uid]

    def validate(self, workload: Workload) -> PlacementRequest:
        """Return the request of a Workload that is not placed yet.

        Raises:
            InvalidWorkloadError: names the field, its value and the allowed values.
        """
        accelerator, spec = workload.spec.accelerator, workload.spec
        if isinstance(spec, UndecodableSpec):
            code = (
                ReasonCode.INVALID_TEMPLATE if spec.error.startswith("template") else ReasonCode.INVALID_SPEC
            )
            raise InvalidWorkloadError(code, spec.error)
        if accelerator.type not in _ACCELERATOR_TYPES:
            allowed = ", ".join(_ACCELERATOR_TYPES)
            raise _invalid(
                f"accelerator.type: {accelerator.type!r} has no device class here; allowed: {allowed}"
            )
        try:
            check_template(spec.template, worker_container=spec.worker_container_name)
        except InvalidTemplateError as error:
            raise InvalidWorkloadError(ReasonCode.INVALID_TEMPLATE, str(error)) from error
        return self.of(workload) or self._build(workload)

    def seat_request(
        self,
        workload: Workload,
        *,
        claim_owner_uid: str | None = None,
        recorded: str = "",
        pod: Pod | None = None,
    ) -> SeatRequest:
        """Return the request for a seat. `recorded` is the assignment ID in status.

        A placed worker keeps its seat if its spec is invalid. The seat is then exclusive, with the host
        memory of `pod`.
        """
        request = self.of(workload)
        if request is not None:
            exclusive, host = not request.shareable, request.host
        else:
            exclusive, host = True, effective_request_of(pod) if pod is not None else Amounts(0, 0)
        return SeatRequest(
            workload=workload.name,
            workload_uid=workload.uid,
            owner_id=workload.owner_key,
            exclusive=exclusive,
            host_request=canonical_bytes(host.memory_bytes or 0),
            seat_limit=self.seat_limit,
            created_at=workload.metadata.creation_timestamp,
            recorded_assignment_id=recorded,
            claim_owner_uid=claim_owner_uid,
        )

    def forget(self, workload: Workload) -> None:
        """Drop the request of a deleted Workload."""
        self._by_uid.pop(workload.uid, None)

    def _build(self, workload: Workload) -> PlacementRequest:
        spec, pod_spec = workload.spec, workload.spec.template.get("spec", {})
        return PlacementRequest(
            worker=workload.name,
            worker_uid=workload.uid,
            role=_role(spec.role),
            memory_bytes=_memory_bytes(spec.accelerator.memory),
            devices=_devices(workload),
            exclusive=spec.exclusive,
            owner_key=workload.owner_key,
            host=_from_template("template.spec", template_request, pod_spec),
            tolerations=_from_template(
                "template.spec.tolerations",
                lambda document: template_tolerations(document.get("tolerations", ())),
                pod_spec,
            ),
            seat_limit=self.seat_limit,
            seat_limit_is_set=self._seat_limit_is_set,
        )


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
    if memory_bytes < MIB:
        raise _invalid(f"accelerator.memory: {quantity}: below 1Mi; write a unit, e.g. 60Gi")
    return memory_bytes


def _devices(workload: Workload) -> int:
    accelerator = workload.spec.accelerator
    match accelerator.mode, accelerator.devices:
        case "SingleGPU", None:
            return 0
        case "SingleGPU", devices:
            raise _invalid(f"accelerator.devices: {devices!r} is for mode MultiGPU only")
        case "MultiGPU", int(devices) if devices >= _MIN_DEVICES:
            return devices
        case "MultiGPU", devices:
            raise _invalid(f"accelerator.devices: {devices!r} must be a whole number from {_MIN_DEVICES} up")
        case mode, _:
            raise _invalid(f"accelerator.mode: {mode!r} is not one of SingleGPU, MultiGPU")


def _from_template(path: str, convert: Callable[[Any], T], document: object) -> T:
    try:
        return convert(document)
    except ValueError as error:
        raise InvalidWorkloadError(ReasonCode.INVALID_TEMPLATE, f"{path}: {error}") from error
