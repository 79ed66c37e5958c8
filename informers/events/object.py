"""The Event object (`events.k8s.io/v1`): the body that creates it, and the patch of its series.

The API server makes everything immutable except `series`, so a repeat can change nothing else. Where
possible, this module prevents values that the server would reject: long notes and invalid names. Events are
never read, so only their identity is decoded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Self

import msgspec

from informers.api import Object, Resource, UnreadableObject, micro_time
from informers.client.decoding import Metadata, struct_decoder

NOTE_BYTES_MAX = 1024
"""Limit of `note` (API reference of `events.k8s.io/v1`)."""
CODE_CHARACTERS_MAX = 128
"""Limit of `reason`, `action` and `reportingInstance`, which must not be empty (same reference)."""

NAMESPACE_OF_CLUSTER_SCOPE = "default"
"""Namespace of events about cluster-scoped objects."""

_NAME_MAX = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ELLIPSIS = "…"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventObject(msgspec.Struct, frozen=True):
    """The response to a write."""

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
    """`type` of an event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Reference:
    """A `core/v1 ObjectReference`; unknown parts are empty."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = field(default="", compare=False)
    """Version that the event is about; not part of the object's identity."""

    @classmethod
    def of(cls, resource: Resource[Any], obj: Object | UnreadableObject) -> Self:
        """Return a reference to `obj`."""
        meta = obj if isinstance(obj, UnreadableObject) else obj.metadata
        return cls(
            resource.api_version, resource.kind, meta.name, meta.namespace, meta.uid, meta.resource_version
        )

    def body(self) -> dict[str, str]:
        """Return the JSON form."""
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
    """The part of an event that its repeats share."""

    regarding: Reference
    type: EventType
    reason: str
    """UpperCamelCase, specific, one of a few constants."""
    action: str
    """What was done or attempted; same form as `reason`."""
    note: str
    """Text for people; truncated to `NOTE_BYTES_MAX`."""
    related: Reference | None
    time: datetime

    @property
    def namespace(self) -> str:
        """Namespace of the event."""
        return self.regarding.namespace or NAMESPACE_OF_CLUSTER_SCOPE


def event_body(event: EventBody, name: str, *, controller: str, instance: str) -> dict[str, Any]:
    """Return the body that creates an event."""
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
        "note": truncate_note(event.note),
    }
    if event.related is not None:
        body["related"] = event.related.body()
    return body


def series_body(count: int, last: datetime) -> dict[str, Any]:
    """Return the series of an event, as part of its body or as a merge patch; `count` is at least 2."""
    return {"series": {"count": count, "lastObservedTime": micro_time(last)}}


def event_name(event: EventBody, random_bits: int) -> str:
    """Return `<object>.<time><random>`, so that kubectl, which lists by name, shows events chronologically.

    The kind replaces an object name that is invalid for an event. `random_bits` has 32 bits.
    """
    regarding = event.regarding
    stem = regarding.name if _SUBDOMAIN.fullmatch(regarding.name) else regarding.kind.lower()
    unique = f"{(event.time - _EPOCH) // timedelta(microseconds=1):014x}{random_bits:08x}"
    return f"{stem[: _NAME_MAX - len(unique) - 1].rstrip('-.')}.{unique}"


def truncate_note(note: str, bytes_max: int = NOTE_BYTES_MAX) -> str:
    """Truncate a note to the API limit, at a character boundary and with an ellipsis."""
    data = note.encode(errors="replace")
    if len(data) <= bytes_max:
        return data.decode()
    kept = data[: bytes_max - len(_ELLIPSIS.encode())]
    return kept.decode(errors="ignore") + _ELLIPSIS
