"""The shape of Pods."""

from __future__ import annotations

from typing import Any

from simulation.embedded.shapes.base import (
    Condition,
    Named,
    NodeSelector,
    Outline,
    Quantities,
    Shape,
    Term,
    Text,
    Toleration,
)


class Preferred(Shape):
    """A preference among nodes."""

    weight: int
    preference: Term


class NodeAffinity(Shape):
    """What a Pod wants of its node."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[Preferred] | None = None


class Affinity(Shape):
    """Only the affinity to nodes is looked at."""

    node_affinity: NodeAffinity | None = None


class ResourceClaimEntry(Named):
    """Which claim a Pod uses."""

    resource_claim_name: Text = None
    resource_claim_template_name: Text = None


class Variable(Named):
    """A variable of a container's environment."""

    value: Text = None


class Resources(Shape):
    """What a container asks for."""

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
    """What a container is up to."""

    waiting: dict[str, Any] | None = None
    running: dict[str, Any] | None = None
    terminated: dict[str, Any] | None = None


class ContainerStatus(Shape):
    """The state of one container."""

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


class Pod(Outline):
    """`v1` Pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None
