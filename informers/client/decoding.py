"""Decodes JSON into the small structures of a `Resource`'s owner, with msgspec.

Owners compose structures from `Metadata` and turn them into a `Resource.decode` with `struct_decoder`.
Undeclared fields are skipped while scanning and cost no memory. Invariant: an object that its decoder
rejects never hides another. It becomes an `UnreadableObject` with whatever metadata can be read.

Not done here: defaulting, conversion between versions, encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec

from informers.api import Resource, T, UnreadableObject
from informers.errors import Undecodable

_NO_LABELS: Mapping[str, str] = MappingProxyType({})

S = TypeVar("S")


# gc=False: these hold only strings and tuples of them, so they can be part of no reference cycle. A cache of
# tens of thousands of objects then costs the garbage collector nothing.
class OwnerReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of `metadata` that every controller needs; subclass it for annotations and the like.

    Times are the API's RFC 3339 text. Everything is read-only, labels included.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = _NO_LABELS
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.labels) is dict:
            msgspec.structs.force_setattr(self, "labels", MappingProxyType(self.labels))


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Identity and version of an object, readable even if its own decoder rejects it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class TypeMeta(msgspec.Struct, frozen=True, gc=False):
    """Kind and identity of a response; absent fields are empty."""

    kind: str = ""
    metadata: Identity = Identity()


def struct_decoder(cls: type[S]) -> Callable[[bytes], S]:
    """Return a `Resource.decode` for a msgspec structure; it raises `ValueError` on a mismatch."""
    decoder = msgspec.json.Decoder(cls)

    def decode(data: bytes) -> S:
        try:
            return decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(str(error)) from error

    return decode


_decode_type_meta = struct_decoder(TypeMeta)


def read_type_meta(data: bytes | msgspec.Raw) -> TypeMeta:
    """Return the kind and identity of an object, all empty if they cannot be read."""
    try:
        return _decode_type_meta(bytes(data))
    except ValueError:
        return TypeMeta()


def unreadable(identity: Identity, error: ValueError) -> UnreadableObject:
    """Return the placeholder for an object that its decoder rejected with `error`."""
    return UnreadableObject(**msgspec.structs.asdict(identity), error=str(error))


def decode_object(resource: Resource[T], data: bytes) -> T:
    """Decode the response of a get or a write. Raises `Undecodable`."""
    try:
        return resource.decode(data)
    except ValueError as error:
        meta = read_type_meta(data)
        name = "/".join(filter(None, (meta.metadata.namespace, meta.metadata.name))) or "an object"
        message = f"{resource} {name} of kind {meta.kind or 'unknown'} cannot be decoded: {error}"
        raise Undecodable(message) from error
