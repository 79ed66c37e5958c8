"""Namespaces: one that is deleted stays until somebody has emptied it and says so."""

from __future__ import annotations

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import NAMESPACES
from simulation.apiserver.refusals import forbidden
from simulation.apiserver.strategies.base import Strategy

NAME_LABEL = "kubernetes.io/metadata.name"
IMMORTAL = frozenset({"default", "kube-public", "kube-system"})
ACTIVE, TERMINATING = "Active", "Terminating"


class NamespaceStrategy(Strategy):
    """A finalizer in the spec holds a namespace, and its phase says that it is being deleted."""

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
