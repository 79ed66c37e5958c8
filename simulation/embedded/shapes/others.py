"""The shapes of Nodes, Leases and Events."""

from __future__ import annotations

from typing import Any

from simulation.embedded.shapes.base import (
    Condition,
    KubernetesObject,
    Quantities,
    Shape,
    Taint,
    Text,
    Timestamp,
)


class NodeSpec(Shape):
    """A Node's `spec`."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class Address(Shape):
    """One address of a Node."""

    type: str
    address: str


class NodeStatus(Shape):
    """A Node's `status`."""

    allocatable: Quantities = None
    capacity: Quantities = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None
    node_info: dict[str, Any] | None = None


class Node(KubernetesObject):
    """`v1` Node."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class LeaseSpec(Shape):
    """A Lease's `spec`."""

    holder_identity: Text = None
    lease_duration_seconds: int | None = None
    renew_time: Timestamp = None


class Lease(KubernetesObject):
    """`coordination.k8s.io/v1` Lease."""

    spec: LeaseSpec | None = None


class Reference(Shape):
    """The object of an Event."""

    kind: Text = None
    namespace: Text = None
    name: Text = None
    uid: Text = None
    field_path: Text = None


class Series(Shape):
    """The series of a repeated Event."""

    count: int
    last_observed_time: Timestamp


class Event(KubernetesObject):
    """`events.k8s.io/v1` Event."""

    type: Text = None
    reason: Text = None
    note: Text = None
    regarding: Reference | None = None
    reporting_controller: Text = None
    reporting_instance: Text = None
    event_time: Timestamp = None
    series: Series | None = None
    deprecated_first_timestamp: Timestamp = None
    deprecated_last_timestamp: Timestamp = None
    deprecated_count: int | None = None
