"""ResourceQuota: a count of objects per namespace.

The server raises the used count in the step of a creation. The quota controller lowers it some time after an
object is gone: `Quota.recount` does that, and `simulation.actors.quotas` calls it with a delay. Source:
`pkg/admission/plugin/resourcequota` of `k8s.io/apiserver`.
"""

from __future__ import annotations

from collections.abc import Callable

from simulation.apiserver.admission.chain import AdmissionRequest, Rule
from simulation.apiserver.kinds import Kind
from simulation.apiserver.refusals import forbidden


class Quota(Rule):
    """A limit on the number of objects of one kind in one namespace, as `count/<plural>`."""

    def __init__(self, kind: Kind, namespace: str, hard: int, *, name: str = "rule-of-the-owner") -> None:
        super().__init__(kind, namespaces=(namespace,))
        self.kind = kind
        self.namespace = namespace
        self.hard = hard
        self.name = name
        self._used = 0

    @property
    def used(self) -> int:
        """The used count, which may be too high for a while."""
        return self._used

    def recount(self, count: Callable[[Kind, str], int]) -> None:
        """Set the used count to the number of objects that exist."""
        self._used = count(self.kind, self.namespace)

    def check(self, request: AdmissionRequest) -> None:
        """Refuse the creation if it exceeds the limit; else count it, unless it is a dry run."""
        if self._used + 1 > self.hard:
            counted = f"count/{self.kind}"
            text = (
                f"exceeded quota: {self.name}, requested: {counted}=1, "
                f"used: {counted}={self._used}, limited: {counted}={self.hard}"
            )
            raise forbidden(request.kind, request.name, text)
        if not request.dry_run:
            self._used += 1
