"""What is served, by path: the kinds of the server in memory, and Events under their older name, too.

The names that people type (`owl`, `no`, `po`) are here; those of our own kinds come from their definitions.

Events as `v1` shows them, made of those of `events.k8s.io/v1`: the same objects under older names.

Source: `k8s.io/kubernetes/pkg/apis/events/v1`, which converts the other way round.
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

OLD_EVENTS = Kind(
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
"""`events.k8s.io` Events as kubectl reads them, which still asks for `v1`. Only for reading."""

SERVED = (*KINDS, OLD_EVENTS)

READING = ("get", "list", "watch")
EVERYTHING = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
EVICTION, STATUS = "eviction", "status"

_SHORT_NAMES = {NAMESPACES: ["ns"], NODES: ["no"], PODS: ["po"], NEW_EVENTS: ["ev"], OLD_EVENTS: ["ev"]}
_CUSTOM_ORDER = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_CATEGORIES = {PODS: ["all"]}
_BY_PLACE = {(kind.group, kind.version, kind.plural): kind for kind in SERVED}
_GROUPLESS = ("api", "v1")


@dataclass(frozen=True)
class Names:
    """How else a kind may be asked for."""

    singular: str
    short: tuple[str, ...]
    categories: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """What a path names: a collection if `name` is empty; all namespaces if `namespace` is."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """Whether the path itself asks for a watch, as in `/api/v1/watch/nodes`."""


@cache
def definition(kind: Kind) -> Mapping[str, Any]:
    """The CustomResourceDefinition of one of our kinds, as installed."""
    loaded: Mapping[str, Any] = yaml.safe_load((CRDS / f"{kind.plural}.yaml").read_text())
    return loaded


def names_of(kind: Kind) -> Names:
    """Singular, short names and categories of a kind."""
    if kind.custom:
        given = definition(kind)["spec"]["names"]
        return Names(
            given["singular"], tuple(given.get("shortNames", ())), tuple(given.get("categories", ()))
        )
    return Names(kind.kind.lower(), tuple(_SHORT_NAMES.get(kind, ())), tuple(_CATEGORIES.get(kind, ())))


def verbs_of(kind: Kind) -> tuple[str, ...]:
    """What may be asked of a kind."""
    if kind is OLD_EVENTS:
        return READING
    if kind.custom:
        return _CUSTOM_ORDER
    if kind is NAMESPACES:
        return tuple(verb for verb in EVERYTHING if verb != "deletecollection")
    return EVERYTHING


def base_path(kind: Kind) -> str:
    """`/api/v1` or `/apis/<group>/<version>`."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/{'/'.join(_GROUPLESS)}"


def resolve(path: str) -> Target | None:
    """What a path names; `None` if nothing is served there."""
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
        case ["namespaces", namespace, plural, *more] if kind := _BY_PLACE.get((group, version, plural)):
            if kind.namespaced:
                return _target(kind, namespace, more)
        case [plural, *more] if kind := _BY_PLACE.get((group, version, plural)):
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


def as_old_event(document: Document) -> Document:
    """The same Event under the names of `v1`. One that has them already is returned as it is."""
    if document.get("apiVersion") == "v1":
        return document
    renamed = {_RENAMED.get(name, name): value for name, value in document.items()}
    # Every other field is always there; kubectl sorts by these.
    times = {name: renamed.get(name) for name in ("firstTimestamp", "lastTimestamp")}
    return {**renamed, **times, "apiVersion": "v1", "source": renamed.get("source") or {}}
