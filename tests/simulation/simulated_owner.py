"""The owner of a simulated cluster, for the cases that `e2e/parity` recorded on a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2e.parity.owner import NAME, WEBHOOK, WORDS, Applied
from simulation.apiserver.admission.chain import Rule
from simulation.apiserver.admission.denials import DenyingPolicy, FailingWebhook
from simulation.apiserver.admission.mutations import ChangedPods, default_requests
from simulation.apiserver.admission.quotas import Quota
from simulation.apiserver.kinds import PODS
from simulation.apiserver.server import ApiServer
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE


class SimulatedOwner:
    """Makes the rules of `e2e.parity.owner.Owner` on a server in memory."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    @asynccontextmanager
    async def _applied(self, rule: Rule) -> AsyncIterator[None]:
        with self._server.admission.applied(rule):
            yield

    def denying_policy(self, reason: str) -> Applied:
        """See `Owner`."""
        return self._applied(DenyingPolicy(PODS, message=WORDS, reason=reason, name=NAME))

    def failing_webhook(self) -> Applied:
        """See `Owner`."""
        return self._applied(FailingWebhook(PODS, name=WEBHOOK))

    def quota(self, pods: int) -> Applied:
        """See `Owner`."""
        return self._applied(Quota(PODS, WORKER_NAMESPACE, pods, name=NAME))

    def default_memory(self, memory: str) -> Applied:
        """See `Owner`."""
        return self._applied(ChangedPods(default_requests(memory=memory)))
