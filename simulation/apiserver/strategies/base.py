"""The strategy of a kind without peculiarities, and what the others build on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simulation.apiserver.documents import Document
from simulation.apiserver.refusals import bad_request

SPEC_IMMUTABLE = "spec: Invalid value: field is immutable"


class Strategy:
    """Defaults and rules of one kind. Faults are texts of the form `field: what is wrong`."""

    graceful = False
    """Whether deletion has a grace period, which somebody else ends."""

    def prepare_create(self, document: Document) -> None:
        """Set what the server sets on a new object: here, it has no status yet."""
        document.pop("status", None)

    def default(self, document: Document, *, strict: bool = False) -> None:
        """Fill in defaults and drop unknown fields, or refuse them if `strict`."""

    def create_faults(self, document: Document) -> Iterator[str]:
        """What is wrong with a new object."""
        return self.faults(document)

    def update_faults(self, old: Document, new: Document) -> Iterator[str]:  # noqa: ARG002 - for others
        """What is wrong with a change of anything but status."""
        return self.faults(new)

    def status_faults(self, old: Document, new: Document) -> Iterator[str]:  # noqa: ARG002 - for others
        """What is wrong with a change of status."""
        return iter(())

    def faults(self, document: Document) -> Iterator[str]:  # noqa: ARG002 - for others
        """What is wrong with any object, new or changed."""
        return iter(())

    def keep(self, old: Document, document: Document) -> None:
        """Take over from the old object what no update changes."""

    def check_deletion(self, name: str) -> None:
        """Refuse to delete what has to stay."""

    def begin_deletion(self, document: Document) -> None:
        """Set what the server sets on an object that is deleted and stays for now."""

    def held(self, document: Document) -> bool:  # noqa: ARG002 - for others
        """Whether something else than `metadata.finalizers` keeps an object that is deleted."""
        return False

    def grace_seconds(self, document: Document) -> int:  # noqa: ARG002 - for others
        """How long a deletion waits for somebody to end it."""
        return 0


def prune(parent: Document, known: Iterable[str], path: str, *, strict: bool) -> None:
    """Drop the fields of `parent` that are not known; refuse them with 400 if `strict`."""
    names = frozenset(known)
    unknown = [name for name in parent if name not in names]
    if unknown and strict:
        listed = ", ".join(f'unknown field "{path}.{name}"' for name in unknown)
        raise bad_request(f"strict decoding error: {listed}")
    for name in unknown:
        del parent[name]


def required(parent: Mapping[str, Any], names: Iterable[str], path: str) -> Iterator[str]:
    """A fault for each field that is absent."""
    return (f"{path}.{name}: Required value" for name in names if name not in parent)


def one_of(parent: Mapping[str, Any], name: str, allowed: tuple[str, ...], path: str) -> Iterator[str]:
    """A fault where a field has another value than those allowed."""
    if name in parent and parent[name] not in allowed:
        listed = ", ".join(f'"{value}"' for value in allowed)
        yield f"{path}.{name}: Unsupported value: {parent[name]!r}: supported values: {listed}"
