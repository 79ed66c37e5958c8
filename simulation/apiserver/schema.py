"""Structural schemas of CustomResourceDefinitions: defaults, pruning and validation.

It reads `manifests/crds`, so that the simulated kinds match the installed ones. CEL rules are not evaluated:
`simulation.apiserver.strategies.custom` implements them. Source: "Extend the Kubernetes API with
CustomResourceDefinitions" of the Kubernetes documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).parents[2] / "manifests" / "crds"

_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}


def read_schema(plural: str) -> Schema:
    """Return the schema of the first version of a custom resource."""
    definition = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    return Schema(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


class Schema:
    """One node of a structural schema."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self._described = described
        self.default_value: object = described.get("default")
        """The default of the field, or `None`."""
        self._preserves = bool(described.get("x-kubernetes-preserve-unknown-fields"))
        self._properties = {name: Schema(each) for name, each in described.get("properties", {}).items()}
        items = described.get("items")
        self._items = Schema(items) if items else None
        others = described.get("additionalProperties")
        self._others = Schema(others) if isinstance(others, dict) else None

    def __repr__(self) -> str:
        return f"<Schema {self._described.get('type', 'any')} properties={sorted(self._properties)}>"

    def default(self, value: Any) -> None:
        """Set defaults for absent fields, in every object that is present."""
        for name, schema in self._fields_of(value):
            if name not in value and schema.default_value is not None:
                value[name] = schema.default_value
            if name in value:
                schema.default(value[name])
        for schema, item in self._items_of(value):
            schema.default(item)

    def prune(self, value: Any, path: str = "") -> Iterator[str]:
        """Remove unknown fields and yield the path of each."""
        if isinstance(value, dict) and not self._preserves and self._others is None and self._properties:
            known = (*self._properties, *_ROOT_FIELDS) if not path else tuple(self._properties)
            for name in [name for name in value if name not in known]:
                del value[name]
                yield _join(path, name)
        for name, schema in self._fields_of(value):
            if name in value and name != "metadata":
                yield from schema.prune(value[name], _join(path, name))
        for index, (schema, item) in enumerate(self._items_of(value)):
            yield from schema.prune(item, f"{path}[{index}]")

    def validate(self, value: Any, path: str = "") -> Iterator[str]:
        """Yield validation errors as `path: error`."""
        fits = self._described.get("x-kubernetes-int-or-string") or _TYPES.get(
            self._described.get("type", ""), lambda _value: True
        )
        allowed = isinstance(value, int | str) if fits is True else fits(value)
        if not allowed:
            expected = self._described.get("type", "integer or string")
            yield f"{path}: Invalid value: {type(value).__name__} is not of type {expected}"
            return
        yield from self._validate_value(value, path)
        for name in self._described.get("required", ()):
            if name not in value:
                yield f"{_join(path, name)}: Required value"
        for name, schema in self._fields_of(value):
            if name in value and _join(path, name) != "metadata":
                yield from schema.validate(value[name], _join(path, name))
        for index, (schema, item) in enumerate(self._items_of(value)):
            yield from schema.validate(item, f"{path}[{index}]")
        yield from self._duplicates(value, path)

    def _validate_value(self, value: Any, path: str) -> Iterator[str]:
        described = self._described
        if "enum" in described and value not in described["enum"]:
            yield f"{path}: Unsupported value: {value!r}"
        if "minimum" in described and value < described["minimum"]:
            yield f"{path}: Invalid value: {value}: should be at least {described['minimum']}"
        for sized, least, most in (
            (dict, "minProperties", "maxProperties"),
            (list, "minItems", "maxItems"),
        ):
            if isinstance(value, sized) and not (
                described.get(least, 0) <= len(value) <= described.get(most, len(value))
            ):
                yield f"{path}: Invalid value: {len(value)} entries"
        if not isinstance(value, str):
            return
        if not described.get("minLength", 0) <= len(value) <= described.get("maxLength", len(value)):
            yield f"{path}: Invalid value: a length of {len(value)}"
        if "pattern" in described and not re.search(described["pattern"], value):
            yield f"{path}: Invalid value: {value!r}: does not match"

    def _duplicates(self, value: Any, path: str) -> Iterator[str]:
        keys = self._described.get("x-kubernetes-list-map-keys")
        if not keys or not isinstance(value, list):
            return
        seen: list[tuple[Any, ...]] = []
        for index, item in enumerate(value):
            identity = tuple(item.get(key) for key in keys) if isinstance(item, dict) else ()
            if identity in seen:
                yield f"{path}[{index}]: Duplicate value: {identity}"
            seen.append(identity)

    def _fields_of(self, value: Any) -> Iterator[tuple[str, Schema]]:
        if isinstance(value, dict):
            yield from self._properties.items()
            if self._others is not None:
                yield from ((name, self._others) for name in value if name not in self._properties)

    def _items_of(self, value: Any) -> Iterator[tuple[Schema, Any]]:
        if isinstance(value, list) and self._items is not None:
            yield from ((self._items, item) for item in value)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
