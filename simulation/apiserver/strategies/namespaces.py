"""Namespaces: a deleted namespace exists until its finalizer is removed, once it is empty."""

from __future__ import annotations

import re
from collections.abc import Iterator

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import NAMESPACES
from simulation.apiserver.refusals import forbidden
from simulation.apiserver.strategies.base import Strategy

NAME_LABEL = "kubernetes.io/metadata.name"
IMMORTAL = frozenset({"default", "kube-public", "kube-system"})
ACTIVE, TERMINATING = "Active", "Terminating"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class NamespaceStrategy(Strategy):
    """A spec finalizer blocks the removal, and the phase shows that the namespace is terminating."""

    def validate_create(self, document: Document) -> Iterator[str]:
        """Require an RFC 1123 label, since the name is part of DNS names: no dots, at most 63 characters."""
        name = document["metadata"].get("name", "")
        if not _LABEL.fullmatch(name):
            yield f"metadata.name: Invalid value: {name!r}: a lowercase RFC 1123 label is needed"

    def validate_status_update(self, old: Document, new: Document) -> Iterator[str]:
        """Allow only the phase that matches the deletion timestamp."""
        phase = new["status"].get("phase")
        only = TERMINATING if "deletionTimestamp" in old["metadata"] else ACTIVE
        if phase != only:
            yield f"status.phase: Invalid value: {phase!r}: may only be {only!r} now"

    def prepare_for_create(self, document: Document) -> None:
        """Set the spec finalizer and the phase."""
        document["spec"] = {"finalizers": ["kubernetes"]}
        document["status"] = {"phase": ACTIVE}

    def keep_immutable_fields(self, old: Document, document: Document) -> None:
        """Keep the spec finalizers, which only the `finalize` subresource removes."""
        document["spec"] = {"finalizers": list(old["spec"]["finalizers"])}

    def default(self, document: Document, *, strict: bool = False) -> None:  # noqa: ARG002 - as others
        """Set the name label, for selectors."""
        metadata = document["metadata"]
        metadata.setdefault("labels", {})[NAME_LABEL] = metadata.get("name", "")

    def check_deletion(self, name: str) -> None:
        """Refuse to delete the built-in namespaces (403)."""
        if name in IMMORTAL:
            raise forbidden(NAMESPACES, name, "this namespace may not be deleted")

    def begin_deletion(self, document: Document) -> None:
        """Set the phase to Terminating. Namespaces have no grace period."""
        del document["metadata"]["deletionGracePeriodSeconds"]
        document["status"]["phase"] = TERMINATING

    def blocks_removal(self, document: Document) -> bool:
        """Whether the spec finalizer still blocks the removal."""
        return bool(document["spec"]["finalizers"])
