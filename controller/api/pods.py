"""All Pods of the cluster: worker Pods in full, foreign Pods in a compact form.

A cluster may hold a hundred thousand foreign Pods. Placement needs only their node and effective request, so
the decoder computes the request and shares repeated values between Pods.

Invariant: every Pod that the controller may look up as a worker's is a `Pod`, never a `ForeignPod`. Such a
Pod has a worker Pod's name, has a Workload as an owner, or refers to a ResourceClaim. This module does not
decide which of these Pods belongs to a worker.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from controller.api import core
from controller.api.core import Pod
from controller.api.names import is_pod_name
from controller.api.workload import WORKLOADS
from informers.api import Resource
from informers.client.decoding import OwnerReference, struct_decoder
from placement.pod_requests import (
    NO_RESOURCES,
    ContainerResources,
    PodResources,
    Resources,
    during_resize,
    effective_request,
)
from placement.types import Amounts

_CACHE_SIZE: Final = 8192
"""Number of distinct effective requests to cache: about one per Pod template."""


class ForeignPod(Struct, frozen=True, gc=False):
    """A Pod of another owner. It also serves as its own metadata in caches."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    node_name: str
    """Empty before kube-scheduler binds the Pod."""
    phase: str
    requests: Amounts
    """The effective request. Pods with equal requests share one object."""

    @property
    def metadata(self) -> ForeignPod:
        """Name, namespace, UID and version."""
        return self

    @property
    def finished(self) -> bool:
        """Whether the Pod is in a final phase."""
        return self.phase in core.FINISHED_PHASES


AnyPod = Pod | ForeignPod


# The fields of a foreign Pod that are decoded. They are hashable, so that the parts that determine the
# effective request can be a cache key.


class _Quantities(Struct, frozen=True, gc=False):
    memory: str | int | float | None = None
    cpu: str | int | float | None = None


_NO_QUANTITIES: Final = _Quantities()


class _Requirements(Struct, frozen=True, gc=False):
    requests: _Quantities = _NO_QUANTITIES
    limits: _Quantities = _NO_QUANTITIES


_NO_REQUIREMENTS: Final = _Requirements()


class _Container(Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    resources: _Requirements = _NO_REQUIREMENTS
    restart_policy: str = ""


class _Spec(Struct, frozen=True, rename="camel", gc=False):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: _Quantities = _NO_QUANTITIES
    resources: _Requirements = _NO_REQUIREMENTS
    resource_claims: tuple[core.PodResourceClaim, ...] = ()


class _Condition(Struct, frozen=True, gc=False):
    type: str = ""
    reason: str = ""


class _ContainerStatus(Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    allocated_resources: _Quantities = _NO_QUANTITIES
    resources: _Requirements | None = None


class _Status(Struct, frozen=True, rename="camel", gc=False):
    phase: str = "Pending"
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    allocated_resources: _Quantities = _NO_QUANTITIES
    resources: _Requirements | None = None


class _Metadata(Struct, frozen=True, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


class _CompactPod(Struct, frozen=True, gc=False):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode_compact = struct_decoder(_CompactPod)
_decode_full = struct_decoder(Pod)


def decode(data: bytes) -> AnyPod:
    """Decode a Pod from JSON. Raises `ValueError` for any other document or an invalid quantity."""
    pod = _decode_compact(data)
    metadata, spec = pod.metadata, pod.spec
    if spec.resource_claims or is_pod_name(metadata.name) or any(map(is_workload, metadata.owner_references)):
        full = _decode_full(data)
        effective_request_of(full)
        return full
    return ForeignPod(
        metadata.name,
        sys.intern(metadata.namespace),
        metadata.uid,
        metadata.resource_version,
        sys.intern(spec.node_name),
        sys.intern(pod.status.phase),
        _cached_request(
            spec.containers, spec.init_containers, spec.overhead, spec.resources, _resize_of(pod.status)
        ),
    )


PODS: Final[Resource[AnyPod]] = Resource("", "v1", "pods", "Pod", namespaced=True, decode=decode)


def is_workload(owner: OwnerReference) -> bool:
    """Return whether an owner is a Workload of our API group, in any version."""
    return owner.kind == WORKLOADS.kind and owner.api_version.partition("/")[0] == WORKLOADS.group


def full_pod(pod: AnyPod | None) -> Pod | None:
    """Return the result of a lookup for a worker's Pod. Every worker's Pod is held in full."""
    return pod if isinstance(pod, Pod) else None


def effective_request_of(pod: AnyPod) -> Amounts:
    """Return what kube-scheduler counts for a Pod. Raises `ValueError` for an invalid quantity."""
    if isinstance(pod, ForeignPod):
        return pod.requests
    spec = pod.spec
    resize = _resize_of(pod.status)
    return _effective_request(spec.containers, spec.init_containers, spec.overhead, spec.resources, resize)


def effective_request_of_spec(spec: core.PodSpec) -> Amounts:
    """Return the effective request of a Pod spec. Raises `ValueError` for an invalid quantity."""
    return _effective_request(spec.containers, spec.init_containers, spec.overhead, spec.resources)


class _Resize(NamedTuple):
    """The resources in a Pod's status. They differ from the spec while a resize is under way."""

    containers: tuple[_ContainerStatus | core.ContainerStatus, ...] = ()
    """Only those that report resources."""
    infeasible: bool = False
    pod: tuple[_Requirements | core.ResourceRequirements, _Quantities | core.ResourceQuantities] | None = None
    """Actual and allocated Pod-level resources."""

    def requests(
        self,
        requests: Resources,
        actual: _Requirements | core.ResourceRequirements,
        allocated: _Quantities | core.ResourceQuantities,
    ) -> Resources:
        return during_resize(
            requests, _amounts(actual.requests), _amounts(allocated), infeasible=self.infeasible
        )


_NO_RESIZE: Final = _Resize()


def _resize_of(status: _Status | core.PodStatus) -> _Resize:
    statuses = (*status.container_statuses, *status.init_container_statuses)
    pending = next((c for c in status.conditions if c.type == "PodResizePending"), None)
    return _Resize(
        tuple(item for item in statuses if item.resources is not None),
        pending is not None and pending.reason == "Infeasible",
        None if status.resources is None else (status.resources, status.allocated_resources),
    )


@lru_cache(maxsize=_CACHE_SIZE)
def _cached_request(
    containers: tuple[_Container, ...],
    init_containers: tuple[_Container, ...],
    overhead: _Quantities,
    resources: _Requirements,
    resize: _Resize,
) -> Amounts:
    return _shared(_effective_request(containers, init_containers, overhead, resources, resize))


@lru_cache(maxsize=_CACHE_SIZE)
def _shared(amounts: Amounts) -> Amounts:
    return amounts


def _effective_request(
    containers: Iterable[_Container | core.Container],
    init_containers: Iterable[_Container | core.Container],
    overhead: _Quantities | core.ResourceQuantities,
    resources: _Requirements | core.ResourceRequirements,
    resize: _Resize = _NO_RESIZE,
) -> Amounts:
    requests = _amounts(resources.requests)
    pod = PodResources(
        containers=tuple(_container(item, resize) for item in containers),
        init_containers=tuple(
            _container(item, resize if item.restart_policy == "Always" else _NO_RESIZE)
            for item in init_containers
        ),
        overhead=_amounts(overhead),
        requests=(
            requests
            if resize.pod is None or requests == NO_RESOURCES
            else resize.requests(requests, *resize.pod)
        ),
        limits=_amounts(resources.limits),
    )
    return effective_request(pod)


def _container(container: _Container | core.Container, resize: _Resize) -> ContainerResources:
    requests = _amounts(container.resources.requests)
    status = next((item for item in resize.containers if item.name == container.name), None)
    if status is not None and status.resources is not None:
        requests = resize.requests(requests, status.resources, status.allocated_resources)
    return ContainerResources(
        requests=requests,
        limits=_amounts(container.resources.limits),
        restart_always=container.restart_policy == "Always",
    )


def _amounts(quantities: _Quantities | core.ResourceQuantities) -> Resources:
    return Resources.parse(asdict(quantities) if isinstance(quantities, _Quantities) else quantities)
