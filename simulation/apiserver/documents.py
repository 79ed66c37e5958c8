"""JSON documents: how they are copied, stored and dated.

A document inside a `Record` is never changed: whoever wants another content makes a copy. The bytes of a
record are made once, however many clients are sent them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec

from informers.api import ObjectKey

Document = dict[str, Any]


def as_document(body: Mapping[str, Any]) -> Document:
    """A deep copy of a body, as it would arrive over the wire.

    Raises:
        TypeError: it holds something that has no JSON form.
    """
    copied: Document = msgspec.json.decode(msgspec.json.encode(body))
    return copied


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC, whole seconds, as `metav1.Time` is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Record:
    """One object at one version."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def __repr__(self) -> str:
        return f"<Record {self.document.get('kind', '')} {self.key}@{self.version}>"

    @property
    def document(self) -> Document:
        """The content: to be read, never changed."""
        return self._document

    @cached_property
    def data(self) -> bytes:
        """The content as sent over the wire."""
        return msgspec.json.encode(self._document)

    @property
    def metadata(self) -> Document:
        """`metadata`: to be read, never changed."""
        metadata: Document = self._document["metadata"]
        return metadata

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.get("namespace", ""), self.metadata["name"])

    @property
    def uid(self) -> str:
        """Tells it from earlier objects of its name."""
        return str(self.metadata["uid"])

    @property
    def version(self) -> str:
        """`metadata.resourceVersion`."""
        return str(self.metadata["resourceVersion"])

    @property
    def deleting(self) -> bool:
        """Whether its deletion has begun."""
        return "deletionTimestamp" in self.metadata

    def copy(self) -> Document:
        """The content, to be changed at will."""
        copied: Document = msgspec.json.decode(self.data)
        return copied


def without_nulls(value: Any) -> Any:
    """The value without members that are null, at any depth: what typed objects make of them."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
