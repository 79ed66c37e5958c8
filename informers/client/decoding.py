"""Decodes JSON into the small structures of a `Resource`'s owner, with msgspec.

Owners compose structures from `Metadata` and turn them into a `Resource.decode` with `struct_decoder`.
Undeclared fields are skipped while scanning and cost no memory. Invariant: an object that its decoder
rejects never hides another. It becomes an `UnreadableObject` with whatever metadata can be read.

An API server accepts 10,000 levels of nesting, but parsers only some hundreds. A text that a parser rejects
is `repaired`, without recursion, and parsed again.

Not done here: defaulting, conversion between versions, encoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from informers.api import Resource, T, UnreadableObject
from informers.errors import Undecodable

_NO_LABELS: Mapping[str, str] = MappingProxyType({})

DEPTH_MAX: Final = 128
"""Levels kept by `repaired`. No declared field nests a tenth as deep; pydantic accepts 200."""

# Everything up to the next run of opening or closing brackets outside of strings, or to an unclosed string.
_BRACKETS: Final = re.compile(rb'(?s)(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[{]++|[\]}]++|")')

# Any escape in a string; the group is half of a surrogate pair without the other half.
_ESCAPES: Final = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)

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
    block_owner_deletion: bool = False


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
            try:
                return decoder.decode(data)
            except (msgspec.DecodeError, RecursionError):
                return decoder.decode(repaired(data))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(str(error)) from error

    return decode


def repaired(data: bytes) -> bytes:
    """Return JSON text with values nested deeper than `DEPTH_MAX` as null, and lone surrogates as U+FFFD.

    Malformed text stays malformed, so that a list is never split at a wrong place.
    """
    if b"\\ud" in data or b"\\uD" in data:
        data = _ESCAPES.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)
    kept, start, depth = list[bytes](), 0, 0
    for match in _BRACKETS.finditer(data):
        run, at = match[1], match.start(1)
        if run == b'"':
            return data
        change = len(run) if run[0] in b"[{" else -len(run)
        if depth <= DEPTH_MAX < depth + change:
            kept.append(data[start : at + DEPTH_MAX - depth])
        elif depth > DEPTH_MAX >= depth + change:
            start = at + depth - DEPTH_MAX
        depth += change
    return b"null".join((*kept, data[start:])) if kept and depth == 0 else data


_decode_type_meta = struct_decoder(TypeMeta)


def read_type_meta(data: bytes | msgspec.Raw) -> TypeMeta:
    """Return the kind and identity of an object, all empty if they cannot be read."""
    try:
        return _decode_type_meta(bytes(data))
    except ValueError:
        return TypeMeta()


def decode_or_unreadable(resource: Resource[T], data: bytes) -> T | UnreadableObject:
    """Decode one object of a list or watch; any failure concerns this object alone."""
    try:
        return resource.decode(data)
    except Exception as error:  # noqa: BLE001
        identity = read_type_meta(data).metadata
        return UnreadableObject(**msgspec.structs.asdict(identity), error=str(error) or repr(error))


def decode_object(resource: Resource[T], data: bytes) -> T:
    """Decode the response of a get or a write. Raises `Undecodable`."""
    obj = decode_or_unreadable(resource, data)
    if not isinstance(obj, UnreadableObject):
        return obj
    name = "/".join(filter(None, (obj.namespace, obj.name))) or "an object"
    kind = read_type_meta(data).kind or "unknown"
    raise Undecodable(f"{resource} {name} of kind {kind} cannot be decoded: {obj.error}")
