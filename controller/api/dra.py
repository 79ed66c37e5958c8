"""The `resource.k8s.io/v1` objects that the controller reads, decoded to the fields that it uses."""

from __future__ import annotations

from msgspec import Struct, field

from controller.api.core import ApiStruct, NodeSelector, OwnedObject, Taint, Toleration, resource_of
from informers.api import Resource
from informers.client.decoding import Metadata


class DeviceCapacity(ApiStruct, frozen=True):
    """`resource/v1 DeviceCapacity`."""

    value: str | int | float


class DeviceAttribute(ApiStruct, frozen=True):
    """`resource/v1 DeviceAttribute`: one of several types. Values of other types are not read."""

    string: str | None = None
    integer: int | None = field(default=None, name="int")
    boolean: bool | None = field(default=None, name="bool")


class CounterSet(ApiStruct, frozen=True):
    """`resource/v1 CounterSet`: what the parts of one device share."""

    name: str
    counters: dict[str, DeviceCapacity] = field(default_factory=dict)


class CounterConsumption(ApiStruct, frozen=True):
    """`resource/v1 DeviceCounterConsumption`: what a device uses of one counter set."""

    counter_set: str
    counters: dict[str, DeviceCapacity] = field(default_factory=dict)


class Device(ApiStruct, frozen=True):
    """`resource/v1 Device`."""

    name: str
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    consumes_counters: tuple[CounterConsumption, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourcePool(ApiStruct, frozen=True):
    """`resource/v1 ResourcePool`."""

    name: str
    generation: int
    resource_slice_count: int


class ResourceSliceSpec(ApiStruct, frozen=True):
    """`ResourceSlice.spec`."""

    driver: str
    pool: ResourcePool
    node_name: str | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()

    @property
    def node_selection(self) -> str:
        """The field that selects the nodes. Exactly one of four is set."""
        if self.node_name:
            return "nodeName"
        if self.all_nodes:
            return "allNodes"
        return "perDeviceNodeSelection" if self.per_device_node_selection else "nodeSelector"


class ResourceSlice(Struct, frozen=True):
    """`resource/v1 ResourceSlice`."""

    metadata: Metadata
    spec: ResourceSliceSpec


class DeviceClass(Struct, frozen=True):
    """`resource/v1 DeviceClass`. The controller only checks that it exists."""

    metadata: Metadata


class CelSelector(ApiStruct, frozen=True):
    """`resource/v1 CELDeviceSelector`."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True):
    """`resource/v1 DeviceSelector`."""

    cel: CelSelector = CelSelector()


class Subrequest(ApiStruct, frozen=True):
    """`resource/v1 DeviceSubRequest`: one alternative of a request."""

    name: str
    count: int = 1
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceRequest(ApiStruct, frozen=True):
    """`resource/v1 DeviceRequest`, reduced to its alternatives."""

    name: str
    first_available: tuple[Subrequest, ...] = ()


class ClaimDevices(ApiStruct, frozen=True):
    """`ResourceClaim.spec.devices`."""

    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True):
    """`ResourceClaim.spec`."""

    devices: ClaimDevices = ClaimDevices()


class AllocationResult(ApiStruct, frozen=True):
    """`resource/v1 DeviceRequestAllocationResult`: one allocated device."""

    driver: str
    pool: str
    device: str
    request: str = ""
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()


class AllocatedDevices(ApiStruct, frozen=True):
    """`status.allocation.devices`."""

    results: tuple[AllocationResult, ...] = ()


class Allocation(ApiStruct, frozen=True):
    """`ResourceClaim.status.allocation`."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str = ""


class ResourceClaimStatus(ApiStruct, frozen=True):
    """`ResourceClaim.status`."""

    allocation: Allocation | None = None


class ResourceClaim(OwnedObject, frozen=True):
    """`resource/v1 ResourceClaim`."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def allocated(self) -> bool:
        """Whether kube-scheduler has allocated devices to the claim."""
        return self.status.allocation is not None


_GROUP = "resource.k8s.io"

SLICES: Resource[ResourceSlice] = resource_of(ResourceSlice, _GROUP, "v1", "resourceslices", namespaced=False)
DEVICE_CLASSES: Resource[DeviceClass] = resource_of(
    DeviceClass, _GROUP, "v1", "deviceclasses", namespaced=False
)
CLAIMS: Resource[ResourceClaim] = resource_of(ResourceClaim, _GROUP, "v1", "resourceclaims", namespaced=True)
