"""The rules that apply to creations, and their order.

Mutating admission runs before the server validates an object, validating admission after it. Both also run
for dry runs. Source: `k8s.io/apiserver/pkg/admission` and the handlers that call it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind


@dataclass(frozen=True)
class AdmissionRequest:
    """One creation. Mutating rules may change the document."""

    kind: Kind
    document: Document
    dry_run: bool

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.document["metadata"].get("name", ""))

    @property
    def namespace(self) -> str:
        """The namespace of the object, empty if its kind has none."""
        return str(self.document["metadata"].get("namespace", ""))


class Rule:
    """A rule for the creations of some kinds, by default in all namespaces."""

    def __init__(self, *kinds: Kind, namespaces: Collection[str] = ()) -> None:
        self._kinds = kinds
        self._namespaces = namespaces

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {' '.join(map(str, self._kinds))}>"

    def concerns(self, request: AdmissionRequest) -> bool:
        """Return whether the rule applies to the creation."""
        return request.kind in self._kinds and (not self._namespaces or request.namespace in self._namespaces)

    def change(self, request: AdmissionRequest) -> None:
        """Change the object, or raise a `Refusal` (mutating admission)."""

    def check(self, request: AdmissionRequest) -> None:
        """Raise a `Refusal` if the object is refused (validating admission)."""


class Admission:
    """All rules of one API server, in the order in which they were added."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def __repr__(self) -> str:
        return f"<Admission {self._rules!r}>"

    def add(self, *rules: Rule) -> None:
        """Apply these rules from now on."""
        self._rules += rules

    def remove(self, *rules: Rule) -> None:
        """Stop applying these rules."""
        self._rules = [rule for rule in self._rules if rule not in rules]

    @contextmanager
    def applied(self, *rules: Rule) -> Iterator[None]:
        """Apply these rules in the block."""
        self.add(*rules)
        try:
            yield
        finally:
            self.remove(*rules)

    def change(self, request: AdmissionRequest) -> bool:
        """Run mutating admission. Return whether a rule concerned the object."""
        concerned = self._rules_for(request)
        for rule in concerned:
            rule.change(request)
        return bool(concerned)

    def check(self, request: AdmissionRequest) -> None:
        """Run validating admission."""
        for rule in self._rules_for(request):
            rule.check(request)

    def _rules_for(self, request: AdmissionRequest) -> list[Rule]:
        return [rule for rule in self._rules if rule.concerns(request)]
