"""The shapes of ResourceClaims, ResourceSlices and DeviceClasses."""

from __future__ import annotations

from simulation.embedded.shapes.base import (
    KubernetesObject,
    Named,
    NodeSelector,
    Shape,
    Taint,
    Text,
    Toleration,
)


class Expression(Shape):
    """A CEL expression."""

    expression: str


class DeviceSelector(Shape):
    """A selector of devices."""

    cel: Expression | None = None


class ExactDeviceRequest(Shape):
    """A number of devices of a class."""

    name: Text = None
    device_class_name: Text = None
    allocation_mode: Text = None
    count: int | None = None
    selectors: list[DeviceSelector] | None = None
    tolerations: list[Toleration] | None = None


class DeviceRequest(Named):
    """An exact request, or alternatives."""

    exactly: ExactDeviceRequest | None = None
    first_available: list[ExactDeviceRequest] | None = None


class ClaimDevices(Shape):
    """`spec.devices` of a claim."""

    requests: list[DeviceRequest] | None = None


class ClaimSpec(Shape):
    """A ResourceClaim's `spec`."""

    devices: ClaimDevices | None = None


class AllocatedDevice(Shape):
    """One allocated device."""

    request: str
    driver: str
    pool: str
    device: str


class AllocatedDevices(Shape):
    """`allocation.devices` of a claim."""

    results: list[AllocatedDevice] | None = None


class Allocation(Shape):
    """`status.allocation` of a claim."""

    devices: AllocatedDevices
    node_selector: NodeSelector | None = None


class Consumer(Shape):
    """An entry of `status.reservedFor`."""

    resource: str
    name: str
    uid: str


class ClaimStatus(Shape):
    """A ResourceClaim's `status`."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] | None = None


class Claim(KubernetesObject):
    """`resource.k8s.io/v1` ResourceClaim."""

    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class Pool(Shape):
    """The pool of a slice."""

    name: str
    generation: int
    resource_slice_count: int


class Capacity(Shape):
    """One capacity of a device."""

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


class Slice(KubernetesObject, kw_only=True):
    """`resource.k8s.io/v1` ResourceSlice."""

    spec: SliceSpec


class ClassSpec(Shape):
    """A DeviceClass's `spec`."""

    selectors: list[DeviceSelector] | None = None


class DeviceClass(KubernetesObject):
    """`resource.k8s.io/v1` DeviceClass."""

    spec: ClassSpec | None = None
