"""Immutable inputs and results of placement decisions, in base units (bytes, thousandths of a CPU).

`controller/` converts Kubernetes objects into these types. A *worker* is one Workload; a *claim* is one
ResourceClaim with the seats of its ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

GIB = 1 << 30
MIB = 1 << 20

MAX_SEATS = 256
"""DRA's maximum number of consumers per claim. It is the effective limit if the setting is 0."""


class Role(Enum):
    """The role of a worker. It selects node pools and never partitions claims."""

    TRAINER = "trainer"
    SAMPLER = "sampler"


EVERY_ROLE = frozenset(Role)


class TaintEffect(Enum):
    """The effect of a taint on Pods, or on claims, that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"
    NONE = "None"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node or of a device."""

    key: str
    value: str
    effect: TaintEffect


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration. An empty `key` with `exists` matches every taint, `effect` None every effect."""

    key: str
    exists: bool
    value: str
    effect: TaintEffect | None


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """A requirement on a label of a node, or on its name (`is_name`)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    is_name: bool = False


NodeTerm = tuple[NodeRequirement, ...]
"""Requirements that a node must all meet."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Host resources of a Pod's requests or of a node. `memory_bytes` None: the node reports no memory."""

    memory_bytes: int | None
    cpu_millis: int
    pods: int = 1


class AttributeValue(NamedTuple):
    """The value of a device attribute. Values of different types differ: 1, "1" and true are three values."""

    type: str
    """The name of the type in the API: `string`, `int` or `bool`."""
    text: str


class DeviceAttribute(NamedTuple):
    """An attribute of a device. `name` is `<domain>/<identifier>`."""

    name: str
    value: AttributeValue


class AcceptedValues(NamedTuple):
    """The values of one attribute that a worker accepts, sorted."""

    name: str
    values: tuple[AttributeValue, ...]


AttributeDemand = tuple[AcceptedValues, ...]
"""The attributes that a device must have, by name. A device without one of them does not fit."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The needs of one worker and the seat limit that applies to it. Only one function builds it."""

    worker: str
    worker_uid: str
    role: Role
    memory_bytes: int
    """Peak memory per device."""
    devices: int
    """0 for a single device, else the exact count (at least 2), all on one node."""
    exclusive: bool
    owner_key: str
    host: Amounts
    tolerations: tuple[Toleration, ...]
    seat_limit: int
    """The effective limit: the setting, or `MAX_SEATS` if the setting is 0."""
    seat_limit_is_set: bool
    node_terms: tuple[NodeTerm, ...] = ()
    """What the Pod requires of its node beyond our own terms: one of these. Empty: nothing."""
    attributes: AttributeDemand = ()

    @property
    def shareable(self) -> bool:
        """Whether this worker may share a claim: it is not exclusive and needs a single device."""
        return not self.exclusive and self.devices == 0

    @property
    def device_count(self) -> int:
        """Number of devices that the claim must hold."""
        return self.devices or 1


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What the Pod of a worker requires from its node. Admission may have changed the template's requests."""

    host: Amounts
    tolerations: tuple[Toleration, ...]
    node_terms: tuple[NodeTerm, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """The properties of a node that placement uses. `roles` holds the accepted roles and may be empty."""

    name: str
    enabled: bool
    roles: frozenset[Role]
    ready: bool
    cordoned: bool
    taints: tuple[Taint, ...]
    allocatable: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    """Only the labels that a `NodeRequirement` names."""


@dataclass(frozen=True, slots=True, order=True)
class DeviceID:
    """The identity of a device in an allocation result."""

    driver: str
    pool: str
    device: str


class CounterUse(NamedTuple):
    """An amount of one counter of a counter set: what the set has, or what a device draws from it."""

    counter_set: str
    counter: str
    amount: int


@dataclass(frozen=True, slots=True)
class Device:
    """A published device. One without a memory capacity (`memory_bytes` None) does not count."""

    name: str
    memory_bytes: int | None
    taints: tuple[Taint, ...] = ()
    attributes: tuple[DeviceAttribute, ...] = ()
    draws: tuple[CounterUse, ...] = ()
    """What it draws from the counter sets of its pool. Parts of one device draw on the same set."""
    multiple_allocations: bool = False
    """Whether several claims can hold it at once. Such a device does not count: a claim never owns it."""

    @property
    def counts(self) -> bool:
        """Whether it can be a device shape."""
        return self.memory_bytes is not None and not self.multiple_allocations

    def accepted_by(self, demands: Iterable[AttributeDemand]) -> frozenset[AttributeDemand]:
        """Return the demands that accept the device."""
        return frozenset(demand for demand in demands if self._has(demand))

    def _has(self, demand: AttributeDemand) -> bool:
        return all(
            any(DeviceAttribute(name, value) in self.attributes for value in values)
            for name, values in demand
        )


@dataclass(frozen=True, slots=True)
class DeviceSlice:
    """One ResourceSlice. `node` is empty if it does not name one node."""

    name: str
    driver: str
    node: str
    pool: str
    generation: int
    slice_count: int
    devices: tuple[Device, ...]
    counters: tuple[CounterUse, ...] = ()
    """The counter sets of the pool that this slice publishes."""
    node_selection: str = ""
    """The field by which it selects nodes, if it does not name one."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """The host resources and claims that a Pod uses. The fleet holds only unfinished Pods."""

    uid: str
    node: str
    """Empty until the Pod is bound."""
    requests: Amounts
    worker_uid: str = ""
    """UID of the Workload that controls the Pod, empty for foreign Pods."""
    claims: tuple[str, ...] = ()
    """Names of the managed claims that the Pod uses (workers' namespace only)."""
    owner_key: str = ""
    """Unit of fairness of its worker, as in a seat; empty for foreign Pods."""
    exclusive: bool = False
    """Whether its worker never shares a claim. A Pod without a seat counts as a seat (contract §4)."""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One row of an allocation result."""

    id: DeviceID
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A managed claim. `node` is empty if the claim is unallocated or its allocation names no single node."""

    name: str
    uid: str
    allocated: bool
    node: str
    devices: tuple[AllocatedDevice, ...]
    joinable: bool
    """Whether it is not terminating and its own ledger owns it. Garbage collection deletes an orphan."""


@dataclass(frozen=True, slots=True)
class SeatInfo:
    """A seat, or a reservation for one: the worker and the host resources that it requests."""

    worker: str
    worker_uid: str
    assignment_id: str
    owner_key: str
    exclusive: bool
    host: Amounts


@dataclass(frozen=True, slots=True)
class DeviceShape:
    """An acceptable device shape: `count` devices whose size rounds up to `gib` GiB.

    `open_upwards` lifts the upper bound: the last shape of a shortened list accepts every larger size.
    """

    count: int
    gib: int
    open_upwards: bool = False

    @property
    def name(self) -> str:
        """Name of the subrequest, `t<count>x<GiB>`."""
        return f"t{self.count}x{self.gib}"


class FreeDevice(NamedTuple):
    """A device that no claim of the fleet holds, and its shape."""

    id: DeviceID
    shape: DeviceShape


@dataclass(frozen=True, slots=True)
class PreferredNode:
    """A weighted preference (1 to 100) for one node."""

    node: str
    weight: int


@dataclass(frozen=True, slots=True)
class SeatOffer:
    """The claim to join. `claim_uid` distinguishes it from a later claim with the same name."""

    claim: str
    claim_uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Refusals:
    """The places that refused one worker. They come last in its choice of a seat, or are closed to it."""

    claims: frozenset[str] = frozenset()
    """UIDs of the claims that are closed to it."""
    nodes: frozenset[str] = frozenset()
    """Nodes of which every claim is closed to it."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of refusals by node, for closed nodes and for nodes that are open again."""
    may_join: bool = True
    """Whether it may book a seat at all now: after a refusal it asks kube-scheduler first."""


NO_REFUSALS = Refusals()


class JoinCheck(Enum):
    """The conditions of a seat, in the order in which they are checked (contract §3, "Select a seat")."""

    NOT_SHAREABLE = "the worker is exclusive or needs several devices"

    # Properties of the claim, equal for all workers.
    UNALLOCATED = "the claim is not allocated"
    ENDING = "the claim is terminating or its ledger is gone"
    ADMIN_ACCESS = "the allocation is for administrative access and holds no device"
    NOT_ONE_DEVICE = "the claim does not hold exactly one device"
    NODE_UNKNOWN = "the claim's node is not enabled or not known"
    DEVICE_UNKNOWN = "no complete pool lists the claim's device with its memory"
    MULTIPLE_ALLOCATIONS = "the device allows multiple allocations, so other claims may hold it too"
    NO_SEATS = "the claim has no seats"
    EXCLUSIVE = "an exclusive worker holds the claim"
    DEVICE_TAINTED = "the device has a taint that the claim does not tolerate"

    # Properties of the node, for this worker.
    ROLE_REFUSED = "the node does not accept the role"
    NODE_NOT_READY = "the node is not ready"
    NODE_CORDONED = "the node is cordoned"
    NODE_TAINTED = "the node has a taint that the template does not tolerate"
    NODE_UNMATCHED = "the node does not match the node selector or affinity that the Pod was given"

    # The worker's needs and the free capacity.
    DEVICE_TOO_SMALL = "the device is too small"
    DEVICE_DIFFERS = "the device lacks an attribute that the worker requires"
    SEAT_LIMIT = "the claim is at its seat limit"
    HOST_MEMORY = "the node has too little free host memory"
    HOST_CPU = "the node has too little free CPU"
    HOST_PODS = "the node has no free Pod slot"
    ALREADY_SEATED = "the worker is already on the claim"
    REFUSED = "the claim or its node has just refused this worker"


class WaitCode(Enum):
    """Whether waiting can help (contract §3)."""

    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    NO_CAPACITY = "NoCapacity"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason why a worker waits. `sentence` changes with its causes and the limit, not with counts."""

    code: WaitCode
    causes: tuple[str, ...]
    """What rules out the claims and nodes that could hold the worker. Empty if waiting cannot help, and if
    the holder of the devices is not in the fleet (yet)."""
    sentence: str

    @property
    def lacks_causes(self) -> bool:
        """Whether the worker waits for capacity and no cause is known."""
        return self.code is WaitCode.WAITING_FOR_CAPACITY and not self.causes
