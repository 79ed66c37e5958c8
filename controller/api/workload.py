"""The Workload as the API server returns it.

Decoding is lenient, because running clusters hold objects that earlier schemas admitted.
`controller.api.requests` validates the spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from controller.api.reasons import PLACED_CONDITION, TERMINAL_PHASES
from informers.api import Resource


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


def _without_nulls(value: object) -> object:
    """Return a document without null members.

    The API server preserves nulls under `template`, where the schema declares no fields. In a Pod it treats
    a null member as absent.
    """
    if isinstance(value, Mapping):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


PodTemplate = Annotated[Mapping[str, Any], BeforeValidator(_without_nulls)]
"""A PodTemplateSpec without null members."""


class Accelerator(_Model):
    """`spec.accelerator`. `memory` is an unparsed quantity; `devices` is for MultiGPU only."""

    mode: str = "SingleGPU"
    type: str = "GPU"
    memory: JsonValue = None
    devices: JsonValue = None


class WorkloadSpec(_Model):
    """`spec` (contract §2.1)."""

    role: str = ""
    owner_id: str = Field(default="", alias="ownerID")
    training_kind: str = ""
    exclusive: bool = True
    accelerator: Accelerator = Accelerator()
    worker_container_name: str = "worker"
    template: PodTemplate = Field(default_factory=dict)


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
    observed_generation: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class Workload(_Model):
    """The request for one worker, and its status."""

    metadata: WorkloadMetadata
    spec: WorkloadSpec = WorkloadSpec()
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


WORKLOADS: Resource[Workload] = Resource(
    group="openrl.io",
    version="v1alpha1",
    plural="workloads",
    kind="Workload",
    namespaced=True,
    decode=Workload.model_validate_json,
)
