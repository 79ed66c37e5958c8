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
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from controller.api import core
from controller.api.core import Pod
from controller.api.names import is_pod_name
from controller.api.workload import WORKLOADS
from informers.api import Resource
from informers.client.decoding import OwnerReference, struct_decoder
from placement.pod_requests import ContainerResources, PodResources, Resources, effective_request
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
    resources: _Requirements = _NO_REQUIREMENTS
    restart_policy: str = ""


class _Spec(Struct, frozen=True, rename="camel", gc=False):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: _Quantities = _NO_QUANTITIES
    resources: _Requirements = _NO_REQUIREMENTS
    resource_claims: tuple[core.PodResourceClaim, ...] = ()


class _Status(Struct, frozen=True, gc=False):
    phase: str = "Pending"


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
        effective_request_of_spec(full.spec)
        return full
    return ForeignPod(
        metadata.name,
        sys.intern(metadata.namespace),
        metadata.uid,
        metadata.resource_version,
        sys.intern(spec.node_name),
        sys.intern(pod.status.phase),
        _cached_request(spec.containers, spec.init_containers, spec.overhead, spec.resources),
    )


PODS: Final[Resource[AnyPod]] = Resource("", "v1", "pods", "Pod", namespaced=True, decode=decode)


def is_workload(owner: OwnerReference) -> bool:
    """Return whether an owner is a Workload of our API group, in any version."""
    return owner.kind == WORKLOADS.kind and owner.api_version.partition("/")[0] == WORKLOADS.group


def full_pod(pod: AnyPod | None) -> Pod | None:
    """Return the result of a lookup for a worker's Pod. Every worker's Pod is held in full."""
    return pod if isinstance(pod, Pod) else None


def effective_request_of(pod: AnyPod) -> Amounts:
    """Return the effective request of a Pod on its node."""
    return pod.requests if isinstance(pod, ForeignPod) else effective_request_of_spec(pod.spec)


def effective_request_of_spec(spec: core.PodSpec) -> Amounts:
    """Return the effective request of a Pod spec. Raises `ValueError` for an invalid quantity."""
    return _effective_request(spec.containers, spec.init_containers, spec.overhead, spec.resources)


@lru_cache(maxsize=_CACHE_SIZE)
def _cached_request(
    containers: tuple[_Container, ...],
    init_containers: tuple[_Container, ...],
    overhead: _Quantities,
    resources: _Requirements,
) -> Amounts:
    return _shared(_effective_request(containers, init_containers, overhead, resources))


@lru_cache(maxsize=_CACHE_SIZE)
def _shared(amounts: Amounts) -> Amounts:
    return amounts


def _effective_request(
    containers: Iterable[_Container | core.Container],
    init_containers: Iterable[_Container | core.Container],
    overhead: _Quantities | core.ResourceQuantities,
    resources: _Requirements | core.ResourceRequirements,
) -> Amounts:
    pod = PodResources(
        containers=tuple(map(_container, containers)),
        init_containers=tuple(map(_container, init_containers)),
        overhead=_amounts(overhead),
        requests=_amounts(resources.requests),
        limits=_amounts(resources.limits),
    )
    return effective_request(pod)


def _container(container: _Container | core.Container) -> ContainerResources:
    return ContainerResources(
        requests=_amounts(container.resources.requests),
        limits=_amounts(container.resources.limits),
        restart_always=container.restart_policy == "Always",
    )


def _amounts(quantities: _Quantities | core.ResourceQuantities) -> Resources:
    return Resources.parse(asdict(quantities) if isinstance(quantities, _Quantities) else quantities)
