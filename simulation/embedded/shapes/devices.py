"""The shapes of ResourceClaims, ResourceSlices and DeviceClasses."""

from __future__ import annotations

from simulation.embedded.shapes.base import Named, NodeSelector, Outline, Shape, Taint, Text, Toleration


class Expression(Shape):
    """A CEL expression."""

    expression: str


class DeviceSelector(Shape):
    """Which devices will do."""

    cel: Expression | None = None


class DeviceWish(Shape):
    """A number of devices of a class."""

    name: Text = None
    device_class_name: Text = None
    allocation_mode: Text = None
    count: int | None = None
    selectors: list[DeviceSelector] | None = None
    tolerations: list[Toleration] | None = None


class DeviceRequest(Named):
    """A wish, or alternatives."""

    exactly: DeviceWish | None = None
    first_available: list[DeviceWish] | None = None


class ClaimDevices(Shape):
    """All requests of a claim."""

    requests: list[DeviceRequest] | None = None


class ClaimSpec(Shape):
    """A ResourceClaim's `spec`."""

    devices: ClaimDevices | None = None


class AllocatedDevice(Shape):
    """A device that a claim holds."""

    request: str
    driver: str
    pool: str
    device: str


class AllocatedDevices(Shape):
    """All of them."""

    results: list[AllocatedDevice] | None = None


class Allocation(Shape):
    """What a claim was given."""

    devices: AllocatedDevices
    node_selector: NodeSelector | None = None


class Consumer(Shape):
    """Who may use it."""

    resource: str
    name: str
    uid: str


class ClaimStatus(Shape):
    """A ResourceClaim's `status`."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] | None = None


class Claim(Outline):
    """`resource.k8s.io/v1` ResourceClaim."""

    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class Pool(Shape):
    """The pool that a slice belongs to."""

    name: str
    generation: int
    resource_slice_count: int


class Capacity(Shape):
    """How much of something a device has."""

    value: str | int


class Device(Named):
    """A published device."""

    capacity: dict[str, Capacity] | None = None
    taints: list[Taint] | None = None


class SliceSpec(Shape):
    """A ResourceSlice's `spec`."""

    driver: str
    pool: Pool
    node_name: Text = None
    devices: list[Device] | None = None


class Slice(Outline, kw_only=True):
    """`resource.k8s.io/v1` ResourceSlice."""

    spec: SliceSpec


class ClassSpec(Shape):
    """A DeviceClass's `spec`."""

    selectors: list[DeviceSelector] | None = None


class DeviceClass(Outline):
    """`resource.k8s.io/v1` DeviceClass."""

    spec: ClassSpec | None = None
