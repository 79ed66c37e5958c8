"""The `core/v1` objects that the controller reads, decoded to the fields that it uses.

Each object is a msgspec structure. The decoder skips undeclared fields. Declared fields keep the API's names
in snake case. `controller.api.pods` adds a compact form for Pods of other owners.
"""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec import Struct, field

from controller.api.names import WORKLOAD_ANNOTATION
from informers.api import Object, Resource
from informers.client.decoding import Metadata, struct_decoder

T = TypeVar("T", bound=Object)

FINISHED_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""Final Pod phases. A Pod in one of them no longer holds resources on its node."""


class ApiStruct(Struct, frozen=True, rename="camel"):
    """Base of the structures: immutable, camel case on the wire."""


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
    toleration_seconds: int | None = None


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """`core/v1 NodeSelectorRequirement`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True):
    """`core/v1 NodeSelectorTerm`."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True):
    """`core/v1 NodeSelector`: the nodes that match one of the terms."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(ApiStruct, frozen=True):
    """`core/v1 NodeAffinity`."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(ApiStruct, frozen=True):
    """`core/v1 Affinity`."""

    node_affinity: NodeAffinity = NodeAffinity()


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
    """A Node condition without its heartbeat time, so that a heartbeat does not look like a change."""

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
    """`core/v1 ResourceRequirements`. A limit is the default of a missing request."""

    requests: ResourceQuantities = {}
    limits: ResourceQuantities = {}


class EnvVar(ApiStruct, frozen=True):
    """`core/v1 EnvVar` with a literal value."""

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


DEFAULT_SCHEDULER = "default-scheduler"


class PodSchedulingGate(ApiStruct, frozen=True):
    """`core/v1 PodSchedulingGate`."""

    name: str = ""


class PodSpec(ApiStruct, frozen=True):
    """`Pod.spec`."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    overhead: ResourceQuantities = {}
    resources: ResourceRequirements = ResourceRequirements()
    tolerations: tuple[Toleration, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    restart_policy: str = "Always"
    scheduler_name: str = DEFAULT_SCHEDULER
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()


class ContainerStateDetails(ApiStruct, frozen=True):
    """`core/v1 ContainerStateWaiting` or `ContainerStateTerminated`."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str = ""


class ContainerStateRunning(ApiStruct, frozen=True):
    """`core/v1 ContainerStateRunning`."""

    started_at: str = ""


class ContainerState(ApiStruct, frozen=True):
    """`core/v1 ContainerState`."""

    waiting: ContainerStateDetails | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateDetails | None = None


class ContainerStatus(ApiStruct, frozen=True):
    """`core/v1 ContainerStatus`."""

    name: str
    state: ContainerState = ContainerState()
    allocated_resources: ResourceQuantities = {}
    resources: ResourceRequirements | None = None


class PodStatus(ApiStruct, frozen=True):
    """`Pod.status`."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    conditions: tuple[ObjectCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: ResourceQuantities = {}
    """Pod-level, as the next field."""
    resources: ResourceRequirements | None = None


class OwnedObject(Struct, frozen=True):
    """An object with owner references."""

    metadata: Metadata

    @property
    def deleting(self) -> bool:
        """Whether the object is being deleted."""
        return self.metadata.deletion_timestamp is not None

    def owned_by(self, uid: str) -> bool:
        """Return whether an owner reference has this UID."""
        return any(owner.uid == uid for owner in self.metadata.owner_references)


class PodAnnotations(Struct, frozen=True, gc=False):
    """The annotation of a worker's Pod."""

    workload: str = field(default="", name=WORKLOAD_ANNOTATION)


class PodMetadata(Metadata, frozen=True, rename="camel", gc=False):
    """`Pod.metadata`."""

    deletion_grace_period_seconds: int | None = None
    annotations: PodAnnotations = PodAnnotations()


class Pod(OwnedObject, frozen=True):
    """`core/v1 Pod`."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether the Pod is in a final phase."""
        return self.status.phase in FINISHED_PHASES

    @property
    def bound(self) -> bool:
        """Whether kube-scheduler has bound the Pod to a node."""
        return bool(self.spec.node_name)

    @property
    def never_runs(self) -> bool:
        """Whether it was deleted before it was bound. The API server then refuses every binding."""
        return self.metadata.deletion_timestamp is not None and not self.bound

    @property
    def node_name(self) -> str:
        """The node that the Pod is bound to; empty before binding."""
        return self.spec.node_name

    @property
    def claim_names(self) -> tuple[str, ...]:
        """Names of the ResourceClaims that the Pod refers to by name."""
        return tuple(c.resource_claim_name for c in self.spec.resource_claims if c.resource_claim_name)

    def claim_of_entry(self, name: str) -> str:
        """Return the ResourceClaim of one entry of `spec.resourceClaims`, or an empty string."""
        claims = (c.resource_claim_name for c in self.spec.resource_claims if c.name == name)
        return next(filter(None, claims), "")

    @property
    def scheduled(self) -> ObjectCondition | None:
        """Condition `PodScheduled`."""
        return self.condition("PodScheduled")

    @property
    def disrupted(self) -> bool:
        """Whether Kubernetes disrupts the Pod, for example by an eviction or because its node was lost."""
        return bool(self.disruption)

    @property
    def disruption(self) -> str:
        """The reason of condition `DisruptionTarget`, such as `DeletionByTaintManager`; empty without it."""
        found = self.condition("DisruptionTarget")
        return (found.reason or found.type) if found is not None and found.status == "True" else ""

    @property
    def started(self) -> bool:
        """Whether any container has run, init containers included."""
        statuses = (*self.status.init_container_statuses, *self.status.container_statuses)
        return any(s.state.running is not None or s.state.terminated is not None for s in statuses)

    def container_end(self, name: str) -> ContainerStateDetails | None:
        """Return how a container ended that will not be restarted, `None` if it has not ended."""
        found = next((s.state.terminated for s in self.status.container_statuses if s.name == name), None)
        policy = self.spec.restart_policy
        restarts = policy == "Always" or (
            policy == "OnFailure" and found is not None and found.exit_code != 0
        )
        return found if self.finished or not restarts else None

    def condition(self, type_: str) -> ObjectCondition | None:
        """Return the condition of that type."""
        return next((c for c in self.status.conditions if c.type == type_), None)

    def env(self, container: str, name: str) -> str:
        """Return the literal value of a variable in one container, or an empty string.

        Of several variables with one name, the kubelet uses the last.
        """
        variables = [e for c in self.spec.containers if c.name == container for e in c.env]
        return next((e.value for e in reversed(variables) if e.name == name), "")


def resource_of(cls: type[T], group: str, version: str, plural: str, *, namespaced: bool) -> Resource[T]:
    """Describe the API resource whose objects decode to `cls`. The class name is the kind."""
    return Resource(group, version, plural, cls.__name__, namespaced, struct_decoder(cls))


NODES: Resource[Node] = resource_of(Node, "", "v1", "nodes", namespaced=False)
