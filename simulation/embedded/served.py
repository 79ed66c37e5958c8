"""The served kinds by path: those of the in-memory server, and Events also in `core/v1`.

The `v1` Events are converted from the stored `events.k8s.io/v1` Events. Short names such as `no` and `po` are
defined here; those of the custom kinds are read from their definitions.

Source: `k8s.io/kubernetes/pkg/apis/events/v1`, which converts in the other direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import EVENTS as NEW_EVENTS
from simulation.apiserver.kinds import KINDS, NAMESPACES, NODES, PODS, Kind
from simulation.apiserver.schema import CRDS

CORE_EVENTS = Kind(
    "",
    "v1",
    "events",
    "Event",
    status=False,
    fields=(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "type",
    ),
)
"""`events.k8s.io` Events in `v1` form, read only. kubectl still reads `v1`."""

SERVED = (*KINDS, CORE_EVENTS)

READING = ("get", "list", "watch")
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
EVICTION, STATUS = "eviction", "status"

_SHORT_NAMES = {NAMESPACES: ["ns"], NODES: ["no"], PODS: ["po"], NEW_EVENTS: ["ev"], CORE_EVENTS: ["ev"]}
_CUSTOM_ORDER = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_CATEGORIES = {PODS: ["all"]}
_BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in SERVED}
_GROUPLESS = ("api", "v1")


@dataclass(frozen=True)
class Names:
    """The alternative names of a kind."""

    singular: str
    short: tuple[str, ...]
    categories: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """The target of a path: a collection if `name` is empty; all namespaces if `namespace` is."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """Whether the path itself requests a watch, as `/api/v1/watch/nodes` does."""


@cache
def definition(kind: Kind) -> Mapping[str, Any]:
    """Return the installed CustomResourceDefinition of a custom kind."""
    loaded: Mapping[str, Any] = yaml.safe_load((CRDS / f"{kind.plural}.yaml").read_text())
    return loaded


def names_of(kind: Kind) -> Names:
    """Return the singular, short names and categories of a kind."""
    if kind.custom:
        given = definition(kind)["spec"]["names"]
        return Names(
            given["singular"], tuple(given.get("shortNames", ())), tuple(given.get("categories", ()))
        )
    return Names(kind.kind.lower(), tuple(_SHORT_NAMES.get(kind, ())), tuple(_CATEGORIES.get(kind, ())))


def verbs_of(kind: Kind) -> tuple[str, ...]:
    """Return the verbs that a kind supports."""
    if kind is CORE_EVENTS:
        return READING
    if kind.custom:
        return _CUSTOM_ORDER
    if kind is NAMESPACES:
        return tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
    return ALL_VERBS


def base_path(kind: Kind) -> str:
    """Return `/api/v1` or `/apis/<group>/<version>`."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/{'/'.join(_GROUPLESS)}"


def resolve(path: str) -> Target | None:
    """Return the target of a path, or `None` if it is not served."""
    parts = [part for part in path.split("/") if part]
    if tuple(parts[:2]) == _GROUPLESS:
        group, version, rest = "", "v1", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= len(("apis", "group", "version", "plural")):
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = rest[:1] == ["watch"]
    target = _locate(group, version, rest[watch:])
    return Target(**{**vars(target), "watch": watch}) if target is not None and watch else target


def _locate(group: str, version: str, rest: list[str]) -> Target | None:
    match rest:
        case ["namespaces", namespace, plural, *more] if kind := _BY_PATH.get((group, version, plural)):
            if kind.namespaced:
                return _target(kind, namespace, more)
        case [plural, *more] if kind := _BY_PATH.get((group, version, plural)):
            if not kind.namespaced or not more:
                return _target(kind, "", more)
        case _:
            pass
    return None


def _target(kind: Kind, namespace: str, rest: list[str]) -> Target | None:
    match rest:
        case []:
            return Target(kind, namespace)
        case [name]:
            return Target(kind, namespace, name)
        case [name, "status" as subresource] if kind.status or kind.custom:
            return Target(kind, namespace, name, subresource)
        case [name, "eviction" as subresource] if kind is PODS:
            return Target(kind, namespace, name, subresource)
        case _:
            return None


_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def as_core_event(document: Document) -> Document:
    """Return an Event in its `v1` form. An Event already in that form is returned unchanged."""
    if document.get("apiVersion") == "v1":
        return document
    renamed = {_RENAMED.get(name, name): value for name, value in document.items()}
    # All other fields are always present; kubectl sorts by these.
    times = {name: renamed.get(name) for name in ("firstTimestamp", "lastTimestamp")}
    return {**renamed, **times, "apiVersion": "v1", "source": renamed.get("source") or {}}
