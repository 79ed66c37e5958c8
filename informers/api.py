"""The port to a Kubernetes API server, and keys, versions and times of objects.

The rest of the library runs unchanged on any implementation of `Api`: the HTTP client
(`informers.client.transport`) or an in-memory server. A `Resource` decodes the bytes of its objects straight
into small structures; request bodies are plain JSON mappings. Every method raises the classes of
`informers.errors` only, and every call is bounded in time.

Keys are values: usable as dictionary keys, work queue items and sort keys. Since Kubernetes 1.35 (KEP-5504)
the resourceVersions of one resource are decimal numbers that may be compared, even between objects. An
aggregated API with opaque versions is not supported and fails with `ValueError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

Json = Mapping[str, Any]


class ObjectMeta(Protocol):
    """The part of an object's metadata that caching and compare-and-swap need."""

    @property
    def name(self) -> str:
        """Name, unique in its namespace."""

    @property
    def namespace(self) -> str:
        """Namespace, empty for cluster scope."""

    @property
    def uid(self) -> str:
        """UID, which distinguishes successive objects of one name."""

    @property
    def resource_version(self) -> str:
        """Version of the last write to this object."""


class Object(Protocol):
    """Anything that a store can hold."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""


T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One kind of object: its place in the API and its decoder.

    `decode` takes the JSON text of one object and returns an immutable structure with the fields that are
    used. It raises `ValueError` (or a subclass) for an object that it rejects.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    decode: Callable[[bytes], T] = field(repr=False)

    @property
    def api_version(self) -> str:
        """`group/version`, as in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """`plural.group`, as in kubectl and RBAC messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True)
class Selectors:
    """Label and field selectors of a list or watch, in the API's own syntax."""

    labels: str = ""
    fields: str = ""


EVERYTHING = Selectors()


@dataclass(frozen=True)
class UnreadableObject:
    """An object that the decoder rejected: it exists, but its content is unknown."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    error: str


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list.

    `continue_token` is empty on the last page. `items` is empty if the caller passed `on_object`.
    """

    items: list[T]
    unreadable: list[UnreadableObject]
    resource_version: str
    continue_token: str


class WatchEventType(Enum):
    """Type of a watch event. `ERROR` events are raised as errors and never delivered."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True)
class WatchEvent(Generic[T]):
    """One watch event. A bookmark has neither `object` nor `unreadable`; any other event has one."""

    type: WatchEventType
    resource_version: str
    object: T | None = None
    unreadable: UnreadableObject | None = None


@dataclass(frozen=True)
class Preconditions:
    """Preconditions of a delete; `None` means unchecked."""

    uid: str | None = None
    resource_version: str | None = None


class PatchType(Enum):
    """Content type of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


class Api(Protocol):
    """The port. `namespace` is empty for cluster scope, and for all namespaces in a list or watch."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object from the server, not from a cache (a quorum read)."""

    async def list_page(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selectors: Selectors = EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
        on_object: Callable[[T], object] | None = None,
    ) -> Page[T]:
        """Read one page. An empty `resource_version` requests a consistent list; `limit` 0 all of it.

        `on_object` receives each object as soon as it is decoded, so that no page is held in memory. A page
        that fails may have delivered a part of its objects.
        """

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        timeout_seconds: int,
        idle_seconds: float,
        selectors: Selectors = EVERYTHING,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Watch the changes after `resource_version`, bookmarks included.

        The server is asked to close after `timeout_seconds`, which ends the iterator. Raises
        `OutcomeUnknown` after `idle_seconds` without data, and `Gone` on 410 in any of its forms.
        """

    async def create(
        self,
        resource: Resource[T],
        body: Json,
        namespace: str = "",
        *,
        strict: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Create an object. `strict` rejects unknown and duplicate fields (`fieldValidation=Strict`).

        With `dry_run`, the server checks and answers as usual, and stores nothing (`dryRun=All`).
        """

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Json | list[Json],
        namespace: str = "",
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
    ) -> T:
        """Patch an object. A `metadata.resourceVersion` in a merge patch makes it conditional."""

    async def update(
        self, resource: Resource[T], name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """Replace an object. An outdated `metadata.resourceVersion` in the body is a `Conflict`."""

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = Preconditions(),
    ) -> T | None:
        """Delete an object with its own grace period (never forced).

        Returns the terminating object, or `None` if the server replied with a bare `Status` because the
        object no longer exists.
        """


Key = tuple[str, str]
"""The plain form of an `ObjectKey`, equal to it. The garbage collector stops tracking plain tuples of strings
but not tuple subclasses, so collections of a hundred thousand objects use plain keys."""


class ObjectKey(NamedTuple):
    """Namespace and name of an object; the namespace is empty for cluster scope."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Object | UnreadableObject) -> Self:
        """Return the key of `obj`."""
        named = obj if isinstance(obj, UnreadableObject) else obj.metadata
        return tuple.__new__(cls, (named.namespace, named.name))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def plain_key(obj: Object) -> Key:
    """Return the plain key of `obj`, for large collections."""
    metadata = obj.metadata
    return metadata.namespace, metadata.name


def version_number(resource_version: str) -> int:
    """Return the number of a resourceVersion; 0, older than all others, for an empty one.

    Raises `ValueError` if it is not a decimal number.
    """
    return int(resource_version) if resource_version else 0


def version_of(obj: Object) -> int:
    """Return the version number of `obj`."""
    return version_number(obj.metadata.resource_version)


def micro_time(time: datetime) -> str:
    """Format a `MicroTime`: RFC 3339, UTC, microseconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
