"""Namespaces: one that is deleted stays until somebody has emptied it and says so."""

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
    """A finalizer in the spec holds a namespace, and its phase says that it is being deleted."""

    def create_faults(self, document: Document) -> Iterator[str]:
        """Its name is a label in names of services: no dots, and at most 63 characters."""
        name = document["metadata"].get("name", "")
        if not _LABEL.fullmatch(name):
            yield f"metadata.name: Invalid value: {name!r}: a lowercase RFC 1123 label is needed"

    def status_faults(self, old: Document, new: Document) -> Iterator[str]:
        """Its phase says whether it is being deleted, and nothing else."""
        phase = new["status"].get("phase")
        only = TERMINATING if "deletionTimestamp" in old["metadata"] else ACTIVE
        if phase != only:
            yield f"status.phase: Invalid value: {phase!r}: may only be {only!r} now"

    def prepare_create(self, document: Document) -> None:
        """Hold it from the start."""
        document["spec"] = {"finalizers": ["kubernetes"]}
        document["status"] = {"phase": ACTIVE}

    def keep(self, old: Document, document: Document) -> None:
        """What holds it goes by `finalize` alone."""
        document["spec"] = {"finalizers": list(old["spec"]["finalizers"])}

    def default(self, document: Document, *, strict: bool = False) -> None:  # noqa: ARG002 - as others
        """Name it in a label, for selectors."""
        metadata = document["metadata"]
        metadata.setdefault("labels", {})[NAME_LABEL] = metadata.get("name", "")

    def check_deletion(self, name: str) -> None:
        """Some are always there: 403."""
        if name in IMMORTAL:
            raise forbidden(NAMESPACES, name, "this namespace may not be deleted")

    def begin_deletion(self, document: Document) -> None:
        """Say that nothing new is taken. There is no grace period."""
        del document["metadata"]["deletionGracePeriodSeconds"]
        document["status"]["phase"] = TERMINATING

    def held(self, document: Document) -> bool:
        """Whether it is to be emptied yet."""
        return bool(document["spec"]["finalizers"])
