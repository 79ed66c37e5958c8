"""The `core/v1` objects that placement depends on, decoded to just the fields that are used.

They are msgspec structures: what is not named here is skipped while parsing and never held. Fields keep the
API's names, in snake case. Pods come in a shorter form, too: see `controller.api.pods`.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from informers.api import Object, Resource
from informers.client.decoding import Metadata, struct_decoder

T = TypeVar("T", bound=Object)


class ApiStruct(Struct, frozen=True, rename="camel"):
    """Base of all structures: immutable, camel case on the wire."""


class Taint(ApiStruct, frozen=True):
    """`core/v1 Taint` or `resource/v1 DeviceTaint`."""

    key: str
    effect: str
    value: str = ""


class Toleration(ApiStruct, frozen=True):
    """`core/v1 Toleration` or `resource/v1 DeviceToleration`."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ObjectCondition(ApiStruct, frozen=True):
    """A condition of a Node or Pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class NodeSpec(ApiStruct, frozen=True):
    """`Node.spec`."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(ApiStruct, frozen=True):
    """A Node's condition without its heartbeat, so that heartbeats change nothing."""

    type: str
    status: str


class NodeStatus(ApiStruct, frozen=True):
    """`Node.status`."""

    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[NodeCondition, ...] = ()


class Node(Struct, frozen=True):
    """`core/v1 Node`."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


ResourceQuantities = dict[str, str | int | float]


class ResourceRequirements(ApiStruct, frozen=True):
    """Requests, and limits, which stand for absent requests."""

    requests: ResourceQuantities = {}
    limits: ResourceQuantities = {}


class EnvVar(ApiStruct, frozen=True):
    """A variable with a literal value."""

    name: str
    value: str = ""


class Container(ApiStruct, frozen=True):
    """`core/v1 Container`."""

    name: str
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    env: tuple[EnvVar, ...] = ()


class PodResourceClaim(ApiStruct, frozen=True):
    """An entry of `Pod.spec.resourceClaims`."""

    name: str
    resource_claim_name: str | None = None


class PodSpec(ApiStruct, frozen=True):
    """`Pod.spec`."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    overhead: ResourceQuantities = {}
    resources: ResourceRequirements = ResourceRequirements()


class ContainerStateWaiting(ApiStruct, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(ApiStruct, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(ApiStruct, frozen=True):
    """One of waiting, running, terminated; running is known by the absence of the others."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(ApiStruct, frozen=True):
    """`core/v1 ContainerStatus`."""

    name: str
    state: ContainerState = ContainerState()


class PodStatus(ApiStruct, frozen=True):
    """`Pod.status`."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    conditions: tuple[ObjectCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


def has_owner(metadata: Metadata, uid: str) -> bool:
    """Whether an owner reference names this UID."""
    return any(owner.uid == uid for owner in metadata.owner_references)


class PodMetadata(Metadata, frozen=True, rename="camel", gc=False):
    """A Pod's metadata: also how long it was given to end."""

    deletion_grace_period_seconds: int | None = None


class Pod(Struct, frozen=True):
    """`core/v1 Pod`."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether it has ended: it holds nothing on its node any more."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def bound(self) -> bool:
        """Whether kube-scheduler has given it a node."""
        return bool(self.spec.node_name)

    @property
    def node_name(self) -> str:
        """Where kube-scheduler has put it, empty until then."""
        return self.spec.node_name

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The ResourceClaims that it uses by name."""
        return tuple(c.resource_claim_name for c in self.spec.resource_claims if c.resource_claim_name)

    @property
    def scheduled(self) -> ObjectCondition | None:
        """kube-scheduler's last word on it."""
        return self.condition("PodScheduled")

    @property
    def disrupted(self) -> bool:
        """Whether something (a drain, an eviction, a lost node) took or takes it away."""
        disruption = self.condition("DisruptionTarget")
        return disruption is not None and disruption.status == "True"

    def owned_by(self, uid: str) -> bool:
        """Whether an owner reference names this UID."""
        return has_owner(self.metadata, uid)

    def condition(self, type_: str) -> ObjectCondition | None:
        """The condition of that type."""
        return next((c for c in self.status.conditions if c.type == type_), None)

    def env(self, container: str, name: str) -> str:
        """The literal value of a variable in one container, empty if there is none."""
        variables = (e for c in self.spec.containers if c.name == container for e in c.env)
        return next((e.value for e in variables if e.name == name), "")


def resource_of(cls: type[T], group: str, version: str, plural: str, *, namespaced: bool) -> Resource[T]:
    """Describe a resource of the API whose objects decode to `cls`, which has its kind as its name."""
    return Resource(group, version, plural, cls.__name__, namespaced, struct_decoder(cls))


NODES: Resource[Node] = resource_of(Node, "", "v1", "nodes", namespaced=False)
