"""What identifies an object, and how two versions of it are put in order.

A key is a value: it may be a dictionary key, an entry of a work queue, a sort key. Since Kubernetes 1.35
(KEP-5504) the resourceVersions of one resource are decimal numbers that may be compared, also between
objects. An aggregated API whose versions are opaque is not served: it fails loudly here.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from informers.api import Object, UnreadableObject

Key = tuple[str, str]
"""What an `ObjectKey` is equal to. The garbage collector stops following plain tuples of texts, never those
of a class of their own: what is held by the hundred thousand is keyed by these."""


class ObjectKey(NamedTuple):
    """Namespace and name of an object; the namespace is empty for cluster scope."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Object | UnreadableObject) -> Self:
        """The key of `obj`."""
        named = obj if isinstance(obj, UnreadableObject) else obj.metadata
        return tuple.__new__(cls, (named.namespace, named.name))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def plain_key(obj: Object) -> Key:
    """The key of `obj`, to be held."""
    metadata = obj.metadata
    return metadata.namespace, metadata.name


def version_number(resource_version: str) -> int:
    """The number in a resourceVersion; 0, older than everything, for an empty one.

    Raises `ValueError` for anything that is not a decimal number.
    """
    return int(resource_version) if resource_version else 0


def version_of(obj: Object) -> int:
    """The number of the last write to `obj`."""
    return version_number(obj.metadata.resource_version)
