"""Build the placement and seat requests of a Workload, and validate its spec and template.

Only this module builds a `PlacementRequest` or a `SeatRequest`. Selection, booking and explanation therefore
use the same memory, owner and seat limit (contract §3).

What a Pod needs of its node is read from the Pod, because admission may change what the template requests. A
worker that has had no Pod yet is judged by the newest Pod of its class, or by its template if there is no
such Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from controller.api.convert import (
    attribute_value,
    qualified_name,
    template_request,
    template_tolerations,
)
from controller.api.core import Pod
from controller.api.pod_needs import needs_of
from controller.api.pods import effective_request_of
from controller.api.reasons import ReasonCode
from controller.api.template_rules import InvalidTemplateError, check_template
from controller.api.workload import UndecodableSpec, Workload
from ledger.seat_rules import SeatRequest
from placement.device_request import check_demand
from placement.quantity import canonical_bytes, parse_bytes
from placement.types import (
    MAX_SEATS,
    MIB,
    AcceptedValues,
    Amounts,
    AttributeDemand,
    AttributeValue,
    PlacementRequest,
    PodNeeds,
    Role,
)

T = TypeVar("T")

_CLASSES_MAX = 1024
"""Number of classes whose newest Pod is remembered."""

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


class EquivalenceClass(NamedTuple):
    """Everything that decides which places fit a worker. Workers of one class have equal requests."""

    template: PlacementRequest
    """The request of the template, without the worker's identity. Workers that are equal in this and have had
    no Pod count with the newest Pod of the others."""
    needs: PodNeeds | None
    """What the worker's own Pod showed, if it has had one."""


class _Template(NamedTuple):
    request: PlacementRequest
    anonymous: PlacementRequest


class _ClassNeeds(NamedTuple):
    created_at: str
    needs: PodNeeds


class PlacementRequests:
    """The placement request of each Workload: its immutable spec, and what Pods have shown so far."""

    def __init__(self, max_seats_per_claim: int, driver: str) -> None:
        self.seat_limit = max_seats_per_claim or MAX_SEATS
        """The effective limit, for selection and booking alike."""
        self.label_keys: frozenset[str] = frozenset()
        """The node labels that any request names. The set only grows."""
        self._seat_limit_is_set = max_seats_per_claim > 0
        self._driver = driver
        self._templates: dict[str, _Template | None] = {}
        self._own_needs: dict[str, PodNeeds] = {}
        self._class_needs: dict[PlacementRequest, _ClassNeeds] = {}
        self._requests: dict[str, tuple[PodNeeds, PlacementRequest]] = {}
        """The last request of each worker, with the needs that are part of it."""

    def of(self, workload: Workload) -> PlacementRequest | None:
        """Return the request of a Workload; `None` if its spec is invalid."""
        template = self._template(workload)
        if template is None:
            return None
        needs = self._needs(workload, template)
        built = self._requests.get(workload.uid)
        if built is None or built[0] != needs:
            request = replace(
                template.request, host=needs.host, tolerations=needs.tolerations, node_terms=needs.node_terms
            )
            built = self._requests[workload.uid] = (needs, request)
        return built[1]

    def equivalence_class(self, workload: Workload) -> EquivalenceClass | None:
        """Return the class of a Workload; `None` if its spec is invalid."""
        template = self._template(workload)
        if template is None:
            return None
        return EquivalenceClass(template.anonymous, self._own_needs.get(workload.uid))

    def learn(self, workload: Workload, pod: Pod) -> bool:
        """Record what a worker's Pod needs. Return whether the request of any worker changed."""
        template = self._template(workload)
        if template is None:
            return False
        needs = needs_of(pod, workload.spec.role)
        changed = self._needs(workload, template) != needs
        self._own_needs[workload.uid] = needs
        key, created_at = template.anonymous, pod.metadata.creation_timestamp
        newest = self._class_needs.get(key)
        if newest is None or created_at >= newest.created_at:
            changed |= needs != (newest.needs if newest is not None else _template_needs(template))
            self._class_needs.pop(key, None)
            self._class_needs[key] = _ClassNeeds(created_at, needs)
            if len(self._class_needs) > _CLASSES_MAX:
                del self._class_needs[next(iter(self._class_needs))]
        self.label_keys |= {r.key for term in needs.node_terms for r in term if not r.is_name}
        return changed

    def _needs(self, workload: Workload, template: _Template) -> PodNeeds:
        """Return what the worker's Pod needs, as far as Pods have shown it."""
        own = self._own_needs.get(workload.uid)
        if own is not None:
            return own
        newest = self._class_needs.get(template.anonymous)
        return _template_needs(template) if newest is None else newest.needs

    def _template(self, workload: Workload) -> _Template | None:
        """Return the request that follows from the spec alone; `None` if the spec is invalid."""
        if workload.uid not in self._templates:
            try:
                request = self._build(workload)
                anonymous = replace(request, worker="", worker_uid="", owner_key="")
                self._templates[workload.uid] = _Template(request, anonymous)
            except InvalidWorkloadError:
                self._templates[workload.uid] = None
        return self._templates[workload.uid]

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
        """Drop the request of a deleted Workload. What its Pod showed still applies to its class."""
        for by_uid in (self._templates, self._own_needs, self._requests):
            by_uid.pop(workload.uid, None)

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
                lambda document: template_tolerations(document.get("tolerations", ()), lasting=True),
                pod_spec,
            ),
            seat_limit=self.seat_limit,
            seat_limit_is_set=self._seat_limit_is_set,
            attributes=_attributes(spec.accelerator.attributes, self._driver),
        )


def _template_needs(template: _Template) -> PodNeeds:
    request = template.request
    return PodNeeds(request.host, request.tolerations, request.node_terms)


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


def _attributes(document: object, driver: str) -> AttributeDemand:
    if document is None:
        return ()
    if not isinstance(document, Mapping):
        raise _invalid(f"accelerator.attributes: {document!r} is not a map of attributes to lists of values")
    found: dict[str, set[AttributeValue]] = {}
    for key, values in document.items():
        if not isinstance(values, list) or not all(isinstance(value, str | int) for value in values):
            raise _invalid(
                f"accelerator.attributes.{key}: {values!r} is not a list of texts, whole numbers and booleans"
            )
        name = qualified_name(key, driver)
        if name in found:
            raise _invalid(f"accelerator.attributes.{key}: {name} is set twice")
        found[name] = {attribute_value(value) for value in values}
    demand = tuple(AcceptedValues(name, tuple(sorted(found[name]))) for name in sorted(found))
    try:
        check_demand(demand)
    except ValueError as error:
        raise _invalid(f"accelerator.attributes: {error}") from error
    return demand


def _from_template(path: str, convert: Callable[[Any], T], document: object) -> T:
    try:
        return convert(document)
    except ValueError as error:
        raise InvalidWorkloadError(ReasonCode.INVALID_TEMPLATE, f"{path}: {error}") from error
