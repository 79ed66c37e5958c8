"""The Workload as the API server returns it.

Decoding is lenient, because running clusters hold objects that earlier schemas admitted.
`controller.api.requests` validates the spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, WrapValidator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from controller.api.reasons import PLACED_CONDITION, TERMINAL_PHASES
from informers.api import Resource
from informers.client.decoding import repaired


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class WorkloadMetadata(_Model):
    """The metadata fields that the controller uses."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()


_DEPTH_MAX: Final = 64
"""Levels of a template: several times as many as a Pod can have."""


def _normalized(value: object, depth: int = 0) -> object:
    """Return a document without null members, and with integers beyond 64 bits as floating-point numbers.

    The API server preserves both under `template`, where the schema declares no fields. In a Pod it treats a
    null member as absent.
    """
    if depth > _DEPTH_MAX:
        raise PydanticCustomError("depth", f"nests more than {_DEPTH_MAX} levels deep")
    if isinstance(value, Mapping):
        return {key: _normalized(member, depth + 1) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_normalized(item, depth + 1) for item in value]
    return float(value) if isinstance(value, int) and abs(value) > 2**63 else value


PodTemplate = Annotated[Mapping[str, Any], BeforeValidator(_normalized)]
"""A PodTemplateSpec without null members."""


class Accelerator(_Model):
    """`spec.accelerator`. `memory` is an unparsed quantity; `devices` is for MultiGPU only.

    `attributes` maps a device attribute to the values that the worker accepts.
    """

    mode: str = "SingleGPU"
    type: str = "GPU"
    memory: JsonValue = None
    devices: JsonValue = None
    attributes: JsonValue = None


class WorkloadSpec(_Model):
    """`spec` (contract §2.1)."""

    role: str = ""
    owner_id: str = Field(default="", alias="ownerID")
    training_kind: str = ""
    exclusive: bool = True
    accelerator: Accelerator = Accelerator()
    worker_container_name: str = "worker"
    template: PodTemplate = Field(default_factory=dict)


class UndecodableSpec(WorkloadSpec):
    """The spec of a Workload whose spec cannot be decoded: nothing but the error is known."""

    error: str = ""


def _sentence(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())


def _spec_or_error(document: Any, decode_spec: Callable[[Any], Any]) -> Any:
    try:
        return decode_spec(document)
    except ValidationError as error:
        return UndecodableSpec(error=_sentence(error))


class WorkloadCondition(_Model):
    """An entry of `status.conditions`. Unknown fields are kept and written back."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="allow")

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int | None = None


class WorkloadStatus(_Model):
    """`status` (contract §2.1)."""

    phase: str = ""
    claim_name: str = ""
    assignment_id: str = Field(default="", alias="assignmentID")
    pod_name: str = ""
    node_name: str = ""
    device_count: int = 0
    memory_per_device: str = ""
    reason: str = ""
    restarts: int = 0
    observed_generation: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class Workload(_Model):
    """The request for one worker, and its status."""

    metadata: WorkloadMetadata
    spec: Annotated[WorkloadSpec, WrapValidator(_spec_or_error)] = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def name(self) -> str:
        """The name, which is the worker's identity."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """The UID, which differs from that of an earlier Workload of the same name."""
        return self.metadata.uid

    @property
    def owner_key(self) -> str:
        """The unit of fairness: the owner, or the worker itself without one."""
        return self.spec.owner_id or self.metadata.name

    @property
    def deleting(self) -> bool:
        """Whether the Workload is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def terminal(self) -> bool:
        """Whether the phase is final. The controller never places such a Workload again."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def creation_order(self) -> tuple[str, str]:
        """Sort key of waiting Workloads: oldest first, then by name."""
        return (self.metadata.creation_timestamp, self.metadata.name)

    @property
    def placed_condition(self) -> WorkloadCondition | None:
        """Condition `Placed`, if it was ever written."""
        return next((c for c in self.status.conditions if c.type == PLACED_CONDITION), None)


def decode(data: bytes) -> Workload:
    """Decode a Workload from JSON. Raises `ValueError` if not even metadata and status can be decoded."""
    try:
        try:
            return Workload.model_validate_json(data)
        except ValidationError:
            return Workload.model_validate_json(repaired(data))
    except ValidationError as error:
        raise ValueError(_sentence(error)) from error


WORKLOADS: Resource[Workload] = Resource(
    group="openrl.io",
    version="v1alpha1",
    plural="workloads",
    kind="Workload",
    namespaced=True,
    decode=decode,
)
