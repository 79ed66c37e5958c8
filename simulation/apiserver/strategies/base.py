"""The default strategy, and helpers of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simulation.apiserver.documents import Document
from simulation.apiserver.refusals import bad_request

SPEC_IMMUTABLE = "spec: Invalid value: field is immutable"


class Strategy:
    """Defaults and rules of one kind. Validation errors are texts of the form `field: error`."""

    graceful = False
    """Whether deletion has a grace period, which the kubelet ends."""

    def prepare_for_create(self, document: Document) -> None:
        """Set the fields that the server sets on a new object: by default, an empty status."""
        document.pop("status", None)

    def default(self, document: Document, *, strict: bool = False) -> None:
        """Set defaults, and drop unknown fields, or refuse them if `strict`."""

    def validate_create(self, document: Document) -> Iterator[str]:
        """Yield validation errors of a new object."""
        return self.validate(document)

    def validate_update(self, old: Document, new: Document) -> Iterator[str]:  # noqa: ARG002 - for others
        """Yield validation errors of a change outside status."""
        return self.validate(new)

    def validate_status_update(self, old: Document, new: Document) -> Iterator[str]:  # noqa: ARG002 - for others
        """Yield validation errors of a change of status."""
        return iter(())

    def validate(self, document: Document) -> Iterator[str]:  # noqa: ARG002 - for others
        """Yield validation errors of an object, new or changed."""
        return iter(())

    def keep_immutable_fields(self, old: Document, document: Document) -> None:
        """Copy the fields from the old object that no update may change."""

    def check_deletion(self, name: str) -> None:
        """Refuse to delete an object that must stay."""

    def begin_deletion(self, document: Document) -> None:
        """Set the fields that the server sets on a terminating object."""

    def blocks_removal(self, document: Document) -> bool:  # noqa: ARG002 - for others
        """Whether something other than `metadata.finalizers` keeps a deleted object."""
        return False

    def grace_seconds(self, document: Document) -> int:  # noqa: ARG002 - for others
        """Return the grace period of a deletion."""
        return 0


def prune(parent: Document, known: Iterable[str], path: str, *, strict: bool) -> None:
    """Drop the unknown fields of `parent`; refuse them with 400 if `strict`."""
    names = frozenset(known)
    unknown = [name for name in parent if name not in names]
    if unknown and strict:
        listed = ", ".join(f'unknown field "{path}.{name}"' for name in unknown)
        raise bad_request(f"strict decoding error: {listed}")
    for name in unknown:
        del parent[name]


def required(parent: Mapping[str, Any], names: Iterable[str], path: str) -> Iterator[str]:
    """Return a validation error for each absent field."""
    return (f"{path}.{name}: Required value" for name in names if name not in parent)


def one_of(parent: Mapping[str, Any], name: str, allowed: tuple[str, ...], path: str) -> Iterator[str]:
    """Yield a validation error if a field has a value that is not allowed."""
    if name in parent and parent[name] not in allowed:
        listed = ", ".join(f'"{value}"' for value in allowed)
        yield f"{path}.{name}: Unsupported value: {parent[name]!r}: supported values: {listed}"
