"""Every Pod of the cluster, decoded to what is read of it: a worker's Pod whole, any other to a few words.

Foreign Pods come by the hundred thousand, and all that placement asks of one is what it takes of which node.
Its effective request is therefore computed while decoding, and what repeats between Pods (names of nodes and
namespaces, phases, equal requests) is held once.

The invariant: a Pod that could be looked up as a worker's is a `Pod`, never a `ForeignPod`. It has a worker's
name, a Workload among its owners, or a ResourceClaim that it names: nothing of ours looks for any other Pod.
Which of these is a worker's is not decided here.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Final

from msgspec import Struct

from controller.api import core
from controller.api.core import Pod
from controller.api.names import is_pod_name
from controller.api.workload import WORKLOADS
from informers.api import Resource
from informers.client.decoding import OwnerReference, struct_decoder
from placement.pod_requests import ContainerResources, PodResources, Resources, effective_request
from placement.types import Amounts

FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""Phases that a Pod does not leave: it holds nothing on its node any more."""

_REMEMBERED: Final = 8192
"""Different ways to ask for resources that are computed once: about one for each Pod template."""


class ForeignPod(Struct, frozen=True, gc=False):
    """A Pod that is no worker's. It is its own metadata, as far as caches need any."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    node_name: str
    """Empty until kube-scheduler has given it a node."""
    phase: str
    terminating: bool
    """Whether its deletion has begun."""
    requests: Amounts
    """What it takes of its node while it is not finished; Pods that take the same share this."""

    @property
    def metadata(self) -> ForeignPod:
        """Name, namespace, UID and version."""
        return self

    @property
    def finished(self) -> bool:
        """Whether it has ended: it holds nothing on its node any more."""
        return self.phase in FINISHED


AnyPod = Pod | ForeignPod


# What the wire says of a Pod, as far as it decides about the above. All of it is hashable, so that the part
# that asks for resources is the key of what it comes to.


class _Quantities(Struct, frozen=True, gc=False):
    memory: str | int | float | None = None
    cpu: str | int | float | None = None


_NOTHING: Final = _Quantities()


class _Requirements(Struct, frozen=True, gc=False):
    requests: _Quantities = _NOTHING
    limits: _Quantities = _NOTHING


_UNNAMED: Final = _Requirements()


class _Container(Struct, frozen=True, rename="camel", gc=False):
    resources: _Requirements = _UNNAMED
    restart_policy: str = ""


class _Spec(Struct, frozen=True, rename="camel", gc=False):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: _Quantities = _NOTHING
    resources: _Requirements = _UNNAMED
    resource_claims: tuple[core.PodResourceClaim, ...] = ()


class _Status(Struct, frozen=True, gc=False):
    phase: str = "Pending"


class _Metadata(Struct, frozen=True, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class _Digest(Struct, frozen=True, gc=False):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode_digest = struct_decoder(_Digest)
_decode_whole = struct_decoder(Pod)


def decode(data: bytes) -> AnyPod:
    """A Pod from its JSON text. Raises `ValueError` for what is none, or asks for what cannot be read."""
    digest = _decode_digest(data)
    metadata, spec = digest.metadata, digest.spec
    if spec.resource_claims or is_pod_name(metadata.name) or any(map(is_workload, metadata.owner_references)):
        return _decode_whole(data)
    return ForeignPod(
        metadata.name,
        sys.intern(metadata.namespace),
        metadata.uid,
        metadata.resource_version,
        sys.intern(spec.node_name),
        sys.intern(digest.status.phase),
        metadata.deletion_timestamp is not None,
        _effective_request(spec.containers, spec.init_containers, spec.overhead, spec.resources),
    )


PODS: Final[Resource[AnyPod]] = Resource("", "v1", "pods", "Pod", namespaced=True, decode=decode)


def is_workload(owner: OwnerReference) -> bool:
    """Whether an owner is a Workload of our API group, in whichever version."""
    return owner.kind == WORKLOADS.kind and owner.api_version.partition("/")[0] == WORKLOADS.group


def full_pod(pod: AnyPod | None) -> Pod | None:
    """What was looked up as a worker's Pod, by its name or by an index: that is held whole."""
    return pod if isinstance(pod, Pod) else None


@lru_cache(maxsize=_REMEMBERED)
def _effective_request(
    containers: tuple[_Container, ...],
    init_containers: tuple[_Container, ...],
    overhead: _Quantities,
    resources: _Requirements,
) -> Amounts:
    asked = PodResources(
        containers=tuple(map(_container, containers)),
        init_containers=tuple(map(_container, init_containers)),
        overhead=_amounts(overhead),
        requests=_amounts(resources.requests),
        limits=_amounts(resources.limits),
    )
    return _shared(effective_request(asked))


@lru_cache(maxsize=_REMEMBERED)
def _shared(amounts: Amounts) -> Amounts:
    return amounts


def _container(item: _Container) -> ContainerResources:
    return ContainerResources(
        requests=_amounts(item.resources.requests),
        limits=_amounts(item.resources.limits),
        restart_always=item.restart_policy == "Always",
    )


def _amounts(quantities: _Quantities) -> Resources:
    named = {"memory": quantities.memory, "cpu": quantities.cpu}
    return Resources.parse({name: amount for name, amount in named.items() if amount is not None})
