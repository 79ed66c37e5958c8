"""The client seam: the few calls that a controller needs of a Kubernetes API server.

Everything above this port runs unchanged on any implementation of it: the adapter for a real server
(`informers.client.transport`) or an in-memory server. Objects come back decoded by the `Resource` that was
asked for, straight from bytes into the small structures that its owner declared; bodies to write are
plain JSON-able mappings. Every method raises the classes of `informers.errors` and nothing else,
and is bounded in time: no call hangs for ever.

What identifies an object, and how two versions of it are put in order.

A key is a value: it may be a dictionary key, an entry of a work queue, a sort key. Since Kubernetes 1.35
(KEP-5504) the resourceVersions of one resource are decimal numbers that may be compared, also between
objects. An aggregated API whose versions are opaque is not served: it fails loudly here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
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
        """Namespace, empty for objects of cluster scope."""

    @property
    def uid(self) -> str:
        """UID, which tells two objects of one name apart."""

    @property
    def resource_version(self) -> str:
        """Version of the last write to this object."""


class Object(Protocol):
    """Anything that a store can hold."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""


T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One kind of object: where it lives in the API and how its bytes are decoded.

    `decode` takes the JSON text of one object and returns an immutable structure holding only the
    fields that are used; it raises `ValueError` (or a subclass) for an object that it does not accept.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    decode: Callable[[bytes], T] = field(repr=False)

    @property
    def api_version(self) -> str:
        """`group/version` as written in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """`plural.group`, as kubectl and RBAC messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True)
class Selectors:
    """Label and field selectors of a list or watch, in the API's own syntax."""

    labels: str = ""
    fields: str = ""


@dataclass(frozen=True)
class UnreadableObject:
    """An object that the decoder refused: it exists, but its content is unknown to us."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    error: str


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list. `continue_token` is empty on the last one; so is `items` where others took them."""

    items: list[T]
    unreadable: list[UnreadableObject]
    resource_version: str
    continue_token: str


class WatchEventType(Enum):
    """What a line of a watch says. `ERROR` lines are raised as errors and never delivered."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True)
class WatchEvent(Generic[T]):
    """One line of a watch. Exactly one of `object` and `unreadable` is set, none for a bookmark."""

    type: WatchEventType
    resource_version: str
    object: T | None = None
    unreadable: UnreadableObject | None = None


@dataclass(frozen=True)
class Preconditions:
    """What must still hold when a delete is carried out; `None` means unchecked."""

    uid: str | None = None
    resource_version: str | None = None


class PatchType(Enum):
    """How a patch's body is applied, by its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


class Api(Protocol):
    """The port. `namespace` is empty for cluster scope, and for all namespaces in a list or watch."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object past every cache (a quorum read)."""

    async def list_page(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selectors: Selectors = Selectors(),
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
        take: Callable[[T], object] | None = None,
    ) -> Page[T]:
        """Read one page. An empty `resource_version` asks for a consistent list; `limit` 0 for all of it.

        Each object goes to `take`, where given, as soon as it is decoded, so that nobody has to hold the
        page; one that fails in the end has been taken in part.
        """

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        timeout_seconds: int,
        idle_seconds: float,
        selectors: Selectors = Selectors(),
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Follow the changes after `resource_version`, bookmarks included.

        The server is asked to close after `timeout_seconds`; the iterator ends when it does, and raises
        `OutcomeUnknown` when nothing came for `idle_seconds`, `Gone` on 410 in any of its forms.
        """

    async def create(
        self, resource: Resource[T], body: Json, namespace: str = "", *, strict: bool = False
    ) -> T:
        """Create an object. `strict` refuses unknown and duplicate fields (`fieldValidation=Strict`)."""

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
        self,
        resource: Resource[T],
        name: str,
        body: Json,
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> T:
        """Replace an object; a stale `metadata.resourceVersion` in the body is a `Conflict`."""

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = Preconditions(),
    ) -> T | None:
        """Delete with the object's own grace period (never forced).

        Returns the object as it is being deleted, or `None` where the server answered with a bare
        `Status` because the object is gone.
        """


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
