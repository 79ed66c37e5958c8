"""The facts and requests that decisions are made from: plain, immutable, in base units.

Nothing here knows Kubernetes objects; `controller/` translates. Amounts are integers: bytes of memory,
thousandths of a CPU. A *worker* is one Workload, a *claim* one ResourceClaim with its ledger's seats.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

GIB = 1 << 30

MAX_SEATS = 256
"""DRA's ceiling on the consumers of one claim: the effective limit where the setting is 0."""


class Role(Enum):
    """What a worker does; it selects node pools and never partitions claims."""

    TRAINER = "trainer"
    SAMPLER = "sampler"


EVERY_ROLE = frozenset(Role)


class TaintEffect(Enum):
    """What a taint does to Pods (or claims) that do not tolerate it."""

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
    """A toleration. An empty `key` with `exists` tolerates everything; `effect` None means every effect."""

    key: str
    exists: bool
    value: str
    effect: TaintEffect | None


@dataclass(frozen=True, slots=True)
class Amounts:
    """Host resources: what a Pod requests or a node can give. `None` memory: the node reports none."""

    memory_bytes: int | None
    cpu_millis: int
    pods: int = 1


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What one worker asks for, with the seat limit that applies to it. Built in one place only."""

    worker: str
    worker_uid: str
    role: Role
    memory_bytes: int
    """Peak device memory: in total for one device, per device for several."""
    devices: int
    """0 for a single device, else the exact number (at least 2), all on one node."""
    exclusive: bool
    owner_key: str
    host: Amounts
    tolerations: tuple[Toleration, ...]
    seat_limit: int
    """The effective limit: the setting, or `MAX_SEATS` where that is 0."""
    seat_limit_is_set: bool

    @property
    def shareable(self) -> bool:
        """Whether this worker may share a claim: not exclusive and on a single device."""
        return not self.exclusive and self.devices == 0

    @property
    def device_count(self) -> int:
        """The number of devices that the claim must hold."""
        return self.devices or 1


@dataclass(frozen=True, slots=True)
class Node:
    """A node as far as placement cares. `roles` are those that it accepts: possibly none."""

    name: str
    enabled: bool
    roles: frozenset[Role]
    ready: bool
    cordoned: bool
    taints: tuple[Taint, ...]
    allocatable: Amounts


@dataclass(frozen=True, slots=True, order=True)
class DeviceID:
    """The identity of a device in an allocation result."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Device:
    """A published device. `memory_bytes` None: it reports no memory capacity and does not count."""

    name: str
    memory_bytes: int | None
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSlice:
    """One ResourceSlice of a node-local pool."""

    name: str
    driver: str
    node: str
    pool: str
    generation: int
    slice_count: int
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class PodUse:
    """A Pod's hold on a node: only Pods that have not finished are given to the fleet."""

    uid: str
    node: str
    """Empty while the Pod is not bound."""
    requests: Amounts
    worker_uid: str = ""
    """UID of the Workload that controls the Pod, empty for others' Pods."""
    claims: tuple[str, ...] = ()
    """Names of the managed claims that it uses (workers' namespace only)."""
    owner_key: str = ""
    """Unit of fairness of its worker, as in a seat; empty for others' Pods."""
    exclusive: bool = False
    """Whether its worker shares with nobody. With `owner_key` it tells what the Pod counts for on a claim
    where it has no seat (contract §4)."""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One row of an allocation result."""

    id: DeviceID
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A managed claim. `node` is empty while unallocated, or where the allocation names no single node."""

    name: str
    uid: str
    allocated: bool
    node: str
    devices: tuple[AllocatedDevice, ...]
    joinable: bool
    """Not terminating, and owned by the ledger of its name (an orphan is dying: nobody joins it)."""


@dataclass(frozen=True, slots=True)
class SeatInfo:
    """A seat as placement sees it: who sits there and what it costs the host."""

    worker: str
    worker_uid: str
    assignment_id: str
    owner_key: str
    exclusive: bool
    host: Amounts


@dataclass(frozen=True, slots=True)
class DeviceShape:
    """An acceptable device shape: `count` devices whose size rounds up to `gib` GiB.

    `open_upwards` marks the last of more than eight shapes: any size of at least the request.
    """

    count: int
    gib: int
    open_upwards: bool = False

    @property
    def name(self) -> str:
        """The name of the subrequest, `t<count>x<GiB>`."""
        return f"t{self.count}x{self.gib}"


@dataclass(frozen=True, slots=True)
class PreferredNode:
    """One weighted preference (1 to 100) for one node."""

    node: str
    weight: int


@dataclass(frozen=True, slots=True)
class SeatOffer:
    """The chosen claim to join. `claim_uid` tells it from a later claim of that name."""

    claim: str
    claim_uid: str
    node: str


class JoinCheck(Enum):
    """Why a claim cannot be joined by a worker."""

    NOT_SHAREABLE = "the worker is exclusive or needs several devices"

    # Properties of the claim alone, whoever asks.
    UNALLOCATED = "the claim is not allocated"
    ENDING = "the claim is terminating or its ledger is gone"
    ADMIN_ACCESS = "the allocation is for administrative access and holds no device"
    NOT_ONE_DEVICE = "the claim does not hold exactly one device"
    NODE_UNKNOWN = "the claim's node is not enabled or not known"
    DEVICE_UNKNOWN = "no complete pool lists the claim's device with its memory"
    NO_SEATS = "nobody is seated on the claim"
    EXCLUSIVE = "an exclusive worker holds the claim"
    DEVICE_TAINTED = "the device has a taint that the claim does not tolerate"

    # Properties of the node, as this worker sees it.
    ROLE_REFUSED = "the node does not accept the role"
    NODE_NOT_READY = "the node is not ready"
    NODE_CORDONED = "the node is cordoned"
    NODE_TAINTED = "the node has a taint that the template does not tolerate"

    # The worker against what is left.
    DEVICE_TOO_SMALL = "the device is too small"
    SEAT_LIMIT = "the claim is at its seat limit"
    HOST_MEMORY = "the node has too little host memory left"
    HOST_CPU = "the node has too little CPU left"
    HOST_PODS = "the node has no Pod slot left"
    ALREADY_SEATED = "the worker is already on the claim"
    REFUSED = "the claim has just refused this worker"


class WaitCode(Enum):
    """Whether waiting can help (contract §3)."""

    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    NO_CAPACITY = "NoCapacity"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a worker waits. `sentence` has no counts that change while the causes stay the same."""

    code: WaitCode
    causes: tuple[str, ...]
    """What rules out the claims and nodes that could hold the worker, as in the sentence. None where waiting
    cannot help, or where what holds the devices is not seen yet, or is nothing of ours."""
    sentence: str

    @property
    def lacks_causes(self) -> bool:
        """Whether there must be a cause, and none can be named."""
        return self.code is WaitCode.WAITING_FOR_CAPACITY and not self.causes
