"""Types that all kinds share."""

from __future__ import annotations

from typing import Annotated

import msgspec

Text = str | None
Timestamp = (
    Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")] | None
)
Quantities = dict[str, str | int | float] | None


class Shape(msgspec.Struct, rename="camel", kw_only=True):
    """A structure with camelCase field names that ignores unknown fields."""


class OwnerReference(Shape):
    """An entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str


class Metadata(Shape):
    """`metadata` of every object. In a patch, a null label or annotation removes it."""

    name: Text = None
    generate_name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Timestamp = None
    deletion_timestamp: Timestamp = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class KubernetesObject(Shape):
    """The fields of every object."""

    api_version: Text = None
    kind: Text = None
    metadata: Metadata | None = None


class Named(Shape):
    """An entry with a name as its merge key."""

    name: str


class Condition(Shape):
    """An entry of `status.conditions`."""

    type: str
    status: Text = None
    reason: Text = None
    message: Text = None
    last_transition_time: Timestamp = None


class NodeSelectorRequirement(Shape):
    """One requirement of a node selector term."""

    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(Shape):
    """One of the alternative terms of a node selector."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Shape):
    """Terms of which at least one must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class Taint(Shape):
    """A taint of a node or a device."""

    key: str
    effect: str
    value: Text = None


class Toleration(Shape):
    """A toleration of a Pod or a device request."""

    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None
    toleration_seconds: int | None = None
