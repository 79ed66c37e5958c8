"""What the shapes of all kinds are made of."""

from __future__ import annotations

from typing import Annotated

import msgspec

Text = str | None
Moment = (
    Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")] | None
)
Quantities = dict[str, str | int | float] | None


class Shape(msgspec.Struct, rename="camel", kw_only=True):
    """Named in camel case; unknown fields are passed over."""


class OwnerReference(Shape):
    """An entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str


class Metadata(Shape):
    """Of every object. In a patch, a label or an annotation may be null, which removes it."""

    name: Text = None
    generate_name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Moment = None
    deletion_timestamp: Moment = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class Outline(Shape):
    """What all objects have."""

    api_version: Text = None
    kind: Text = None
    metadata: Metadata | None = None


class Named(Shape):
    """An entry that is known by its name."""

    name: str


class Condition(Shape):
    """One condition."""

    type: str
    status: Text = None
    reason: Text = None
    message: Text = None
    last_transition_time: Moment = None


class Requirement(Shape):
    """One term of a selector."""

    key: str
    operator: str
    values: list[str] | None = None


class Term(Shape):
    """One alternative of a node selector."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Shape):
    """Alternatives of which one must hold."""

    node_selector_terms: list[Term] | None = None


class Taint(Shape):
    """A taint of a node or a device."""

    key: str
    effect: str
    value: Text = None


class Toleration(Shape):
    """A taint that a Pod bears."""

    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None
    toleration_seconds: int | None = None
