"""From bytes to the small structures that a `Resource`'s owner declares, with msgspec.

Owners compose their structures from `Metadata` and turn them into a `Resource.decode` with
`struct_decoder`; fields that are not declared are skipped while scanning and cost no memory. The
invariant kept here: one object that its decoder refuses never hides another. It becomes an
`UnreadableObject`, identified by whatever of its metadata can be read.

There is no defaulting, no conversion between versions and no encoding of objects here.
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


# gc=False: these hold strings and tuples of such, so they can be part of no reference cycle, and a
# cache of tens of thousands of objects stays out of the collector's sight.
class OwnerReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of `metadata` that every controller needs; subclass it for annotations and the like.

    Times are the API's own RFC 3339 text. Labels are read-only, as is everything else here.
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
    """Which object this is: all that can be asked of one that its own decoder refuses."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class TypeMeta(msgspec.Struct, frozen=True, gc=False):
    """The first thing to know about any answer: its kind and identity, empty where it does not say."""

    kind: str = ""
    metadata: Identity = Identity()


def struct_decoder(cls: type[S]) -> Callable[[bytes], S]:
    """A `Resource.decode` for a msgspec structure: JSON text in, `ValueError` where it does not fit."""
    decoder = msgspec.json.Decoder(cls)

    def decode(data: bytes) -> S:
        try:
            return decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(str(error)) from error

    return decode


_decode_head = struct_decoder(TypeMeta)


def read_head(data: bytes | msgspec.Raw) -> TypeMeta:
    """The kind and identity of an object, all empty if not even that can be read."""
    try:
        return _decode_head(bytes(data))
    except ValueError:
        return TypeMeta()


def unreadable(identity: Identity, error: ValueError) -> UnreadableObject:
    """The stand-in for an object that its decoder refused with `error`."""
    return UnreadableObject(
        name=identity.name,
        namespace=identity.namespace,
        uid=identity.uid,
        resource_version=identity.resource_version,
        error=str(error),
    )


def decode_object(resource: Resource[T], data: bytes) -> T:
    """Decode the answer of a get or a write. Raises `Undecodable`, with the object's key where it has one."""
    try:
        return resource.decode(data)
    except ValueError as error:
        head = read_head(data)
        key = (head.metadata.namespace, head.metadata.name)
        name = "/".join(filter(None, key)) or "an object"
        message = f"{resource} {name} of kind {head.kind or 'unknown'} is not readable: {error}"
        raise Undecodable(message, key=key if head.metadata.name else None) from error
