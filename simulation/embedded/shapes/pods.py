"""The shape of Pods."""

from __future__ import annotations

from typing import Any

from simulation.embedded.shapes.base import (
    Condition,
    KubernetesObject,
    Named,
    NodeSelector,
    NodeSelectorTerm,
    Quantities,
    Shape,
    Text,
    Toleration,
)


class PreferredNode(Shape):
    """A node preference with its weight."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Shape):
    """Required and preferred nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNode] | None = None


class Affinity(Shape):
    """Affinity of a Pod. Only node affinity is read."""

    node_affinity: NodeAffinity | None = None


class ResourceClaimEntry(Named):
    """A claim that the Pod uses."""

    resource_claim_name: Text = None
    resource_claim_template_name: Text = None


class Variable(Named):
    """An environment variable of a container."""

    value: Text = None


class Resources(Shape):
    """Resources of a container."""

    requests: Quantities = None
    limits: Quantities = None
    claims: list[Named] | None = None


class Container(Shape):
    """One container."""

    name: Text = None
    image: Text = None
    resources: Resources | None = None
    restart_policy: Text = None
    env: list[Variable] | None = None


class PodSpec(Shape):
    """A Pod's `spec`."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_name: Text = None
    scheduler_name: Text = None
    restart_policy: Text = None
    termination_grace_period_seconds: int | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    resource_claims: list[ResourceClaimEntry] | None = None
    scheduling_gates: list[Named] | None = None
    overhead: Quantities = None
    resources: Resources | None = None


class ContainerState(Shape):
    """The current state of a container."""

    waiting: dict[str, Any] | None = None
    running: dict[str, Any] | None = None
    terminated: dict[str, Any] | None = None


class ContainerStatus(Shape):
    """The status of one container."""

    name: Text = None
    ready: bool | None = None
    restart_count: int | None = None
    state: ContainerState | None = None


class PodStatus(Shape):
    """A Pod's `status`."""

    phase: Text = None
    reason: Text = None
    message: Text = None
    nominated_node_name: Text = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(KubernetesObject):
    """`v1` Pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None
