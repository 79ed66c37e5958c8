"""The Workload as we read it from the API.

Tolerant, because running clusters hold objects that earlier schemas let through: what is wrong with a spec
is found by `controller.api.requests`, not by the decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from controller.api.reasons import PLACED_CONDITION, TERMINAL_PHASES
from informers.api import Resource


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class WorkloadMetadata(_Part):
    """The metadata that the controller uses."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()


def _without_nulls(value: object) -> object:
    """A document without the null members of its objects.

    The API server stores a null under `template`, where the schema declares nothing, and reads it as absent
    in a Pod: here it is absent from the start.
    """
    if isinstance(value, Mapping):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


PodTemplate = Annotated[Mapping[str, Any], BeforeValidator(_without_nulls)]
"""A PodTemplateSpec as it was written, but for its nulls."""


class Accelerator(_Part):
    """`spec.accelerator`; `memory` is a quantity as written (text or number), `devices` for MultiGPU only."""

    mode: str = "SingleGPU"
    type: str = "GPU"
    memory: JsonValue = None
    devices: JsonValue = None


class WorkloadSpec(_Part):
    """`spec` (contract §2.1)."""

    role: str = ""
    model_id: str = Field(default="", alias="modelID")
    owner_id: str = Field(default="", alias="ownerID")
    training_kind: str = ""
    exclusive: bool = True
    accelerator: Accelerator = Accelerator()
    worker_container_name: str = "worker"
    template: PodTemplate = Field(default_factory=dict)


class WorkloadCondition(_Part):
    """One entry of `status.conditions`; fields that we do not know survive our writes."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="allow")

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int | None = None


class WorkloadStatus(_Part):
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


class Workload(_Part):
    """A request for one worker, and its outcome."""

    metadata: WorkloadMetadata
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def name(self) -> str:
        """The worker's identity."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """Tells this Workload from an earlier one of its name."""
        return self.metadata.uid

    @property
    def owner_key(self) -> str:
        """The unit of fairness: the owner, or the worker itself where it names none."""
        return self.spec.owner_id or self.metadata.name

    @property
    def deleting(self) -> bool:
        """Whether deletion was asked for."""
        return self.metadata.deletion_timestamp is not None

    @property
    def terminal(self) -> bool:
        """Whether it has ended: it is never placed again."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def creation_order(self) -> tuple[str, str]:
        """The order in which waiters are served: oldest first, then by name."""
        return (self.metadata.creation_timestamp, self.metadata.name)

    @property
    def placed_condition(self) -> WorkloadCondition | None:
        """The `Placed` condition, if it was ever written."""
        return next((c for c in self.status.conditions if c.type == PLACED_CONDITION), None)


WORKLOADS: Resource[Workload] = Resource(
    group="openrl.io",
    version="v1alpha1",
    plural="workloads",
    kind="Workload",
    namespaced=True,
    decode=Workload.model_validate_json,
)
