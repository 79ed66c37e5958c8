"""JSON documents: copies, records and timestamps.

The document of a `Record` is never changed; to change it, take a copy. A record is encoded once, however many
clients receive it.
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
    """Return a deep copy of a body, as the server would receive it.

    Raises:
        TypeError: The body holds a value without a JSON form.
    """
    copied: Document = msgspec.json.decode(msgspec.json.encode(body))
    return copied


def format_time(when: datetime) -> str:
    """Format a time as `metav1.Time` does: RFC 3339, UTC, whole seconds."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Record:
    """One object at one version."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def __repr__(self) -> str:
        return f"<Record {self.document.get('kind', '')} {self.key}@{self.version}>"

    @property
    def document(self) -> Document:
        """The content. Read only."""
        return self._document

    @cached_property
    def data(self) -> bytes:
        """The content as sent over the wire."""
        return msgspec.json.encode(self._document)

    @property
    def metadata(self) -> Document:
        """`metadata`. Read only."""
        metadata: Document = self._document["metadata"]
        return metadata

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.get("namespace", ""), self.metadata["name"])

    @property
    def uid(self) -> str:
        """`metadata.uid`, which distinguishes it from earlier objects of the same name."""
        return str(self.metadata["uid"])

    @property
    def version(self) -> str:
        """`metadata.resourceVersion`."""
        return str(self.metadata["resourceVersion"])

    @property
    def deleting(self) -> bool:
        """Whether it has a deletion timestamp."""
        return "deletionTimestamp" in self.metadata

    def copy(self) -> Document:
        """Return a copy of the content that the caller may change."""
        unread = self.metadata.get("managedFields")
        if not isinstance(unread, msgspec.Raw):
            copied: Document = msgspec.json.decode(self.data)
            return copied
        # Encoded metadata may nest too deep to be decoded.
        metadata = {**self.metadata, "managedFields": None}
        copied = as_document({**self._document, "metadata": metadata})
        copied["metadata"]["managedFields"] = unread
        return copied


def without_nulls(value: Any) -> Any:
    """Return the value without null members at any depth, as decoding into typed objects does."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
