"""The Event object (`events.k8s.io/v1`) as a recorder writes it: its body, and the patch of its series.

The API server fixes everything but `series` once an event exists, so a repeat can change nothing else. What
it refuses is kept out here where it can be: notes that are too long, names that are none. Events are never
read, so only their identity is decoded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Self

import msgspec

from informers.api import Object, Resource
from informers.client.decoding import Metadata, struct_decoder

NOTE_BYTES_MAX = 1024
"""Of `note` (API reference of `events.k8s.io/v1`)."""
CODE_CHARACTERS_MAX = 128
"""Of `reason`, `action` and `reportingInstance`, none of which may be empty (same reference)."""

NAMESPACE_OF_CLUSTER_SCOPE = "default"
"""Where events about objects of cluster scope have to live."""

_NAME_MAX = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ELLIPSIS = "…"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventObject(msgspec.Struct, frozen=True):
    """The answer to a write."""

    metadata: Metadata


EVENTS: Resource[EventObject] = Resource(
    group="events.k8s.io",
    version="v1",
    plural="events",
    kind="Event",
    namespaced=True,
    decode=struct_decoder(EventObject),
)


class EventType(Enum):
    """`type`: there are only these two."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to an object (`core/v1 ObjectReference`); parts that are not known stay empty."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = field(default="", compare=False)
    """Which version the event speaks of; two versions are one object."""

    @classmethod
    def of(cls, resource: Resource[Any], obj: Object) -> Self:
        """The reference to an object that is at hand."""
        meta = obj.metadata
        return cls(
            resource.api_version, resource.kind, meta.name, meta.namespace, meta.uid, meta.resource_version
        )

    def body(self) -> dict[str, str]:
        """As the API writes it."""
        parts = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {name: text for name, text in parts.items() if text}


@dataclass(frozen=True, slots=True)
class EventBody:
    """What stays the same in an event and its repeats."""

    regarding: Reference
    type: EventType
    reason: str
    """Why: UpperCamelCase, specific, one of a few constants."""
    action: str
    """What was done or tried; of the same form."""
    note: str
    """For people; cut to `NOTE_BYTES_MAX`."""
    related: Reference | None
    time: datetime
    """When it happened first."""

    @property
    def namespace(self) -> str:
        """Where the event has to live."""
        return self.regarding.namespace or NAMESPACE_OF_CLUSTER_SCOPE


def event_body(event: EventBody, name: str, *, controller: str, instance: str) -> dict[str, Any]:
    """The body that creates an event."""
    body: dict[str, Any] = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": event.namespace},
        "eventTime": micro_time(event.time),
        "reportingController": controller,
        "reportingInstance": instance,
        "regarding": event.regarding.body(),
        "type": event.type.value,
        "reason": event.reason,
        "action": event.action,
        "note": cut_note(event.note),
    }
    if event.related is not None:
        body["related"] = event.related.body()
    return body


def series_body(count: int, last: datetime) -> dict[str, Any]:
    """The part of an event, or the merge patch of one, that says how often it has happened (at least 2)."""
    return {"series": {"count": count, "lastObservedTime": micro_time(last)}}


def event_name(event: EventBody, random_bits: int) -> str:
    """`<object>.<time><random>`: kubectl lists by name, and so in the order in which things happened.

    The kind stands for a name that no event may bear. `random_bits` are 32.
    """
    regarding = event.regarding
    stem = regarding.name if _SUBDOMAIN.fullmatch(regarding.name) else regarding.kind.lower()
    unique = f"{(event.time - _EPOCH) // timedelta(microseconds=1):014x}{random_bits:08x}"
    return f"{stem[: _NAME_MAX - len(unique) - 1].rstrip('-.')}.{unique}"


def cut_note(note: str, bytes_max: int = NOTE_BYTES_MAX) -> str:
    """Shorten a note to what the API takes, visibly, and between two characters."""
    data = note.encode(errors="replace")
    if len(data) <= bytes_max:
        return data.decode()
    kept = data[: bytes_max - len(_ELLIPSIS.encode())]
    return kept.decode(errors="ignore") + _ELLIPSIS


def micro_time(time: datetime) -> str:
    """`MicroTime`: RFC 3339, UTC, microseconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
