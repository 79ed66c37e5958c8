"""The cost of an idle controller with hundreds of placed workers, including the leader's lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio
from anyio import to_thread

from bench.contender import Contender
from bench.meter import Meter
from bench.samples import Sample
from bench.scenarios.base import GPUS_PER_NODE, Scenario, gpu_fleet
from bench.testbed import Testbed
from e2e.controlplane import CONTROLLER_USER, WORKER_NAMESPACE, Api, Object

TIMEOUT_SECONDS_PER_WORKER = 3
ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{WORKER_NAMESPACE}/roles"
BINDINGS = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{WORKER_NAMESPACE}/rolebindings"
LEASE_ROLE = "bench-lease"


@dataclass(frozen=True, kw_only=True)
class AtRest(Scenario):
    """A scenario with `placed` running workers and no changes."""

    placed: int
    measured_seconds: float

    async def measure(self, testbed: Testbed, contender: Contender, round_number: int) -> Sequence[Sample]:
        """Measure the costs of the whole interval."""
        await to_thread.run_sync(grant_lease, testbed.cluster.api)
        flags = {**self.flags, "--leader-elect": "true"}
        nodes = -(-self.placed // GPUS_PER_NODE)
        async with testbed.start(self.name, contender, gpu_fleet(nodes), flags) as run:
            names = [f"worker-{number:03}" for number in range(self.placed)]
            timeout_seconds = 30 + TIMEOUT_SECONDS_PER_WORKER * self.placed
            await run.place(names, shared=False, timeout_seconds=timeout_seconds)
            await run.meter.settle()
            meter = run.meter = Meter(run.process, testbed.cluster)
            meter.begin()
            await anyio.sleep(self.measured_seconds)
            meter.end_now()
            return [self.sample(run, round_number, operations=1, seconds=self.measured_seconds, latencies={})]

    def quick(self) -> AtRest:
        """Return a short variant with few workers."""
        return replace(self, placed=8, measured_seconds=5)


def grant_lease(api: Api) -> None:
    """Grant the controller a lease in the workers' namespace, where it is outside of a cluster."""
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "patch"],
    }
    api_group = "rbac.authorization.k8s.io"
    role: Object = {"apiVersion": f"{api_group}/v1", "kind": "Role", "metadata": {"name": LEASE_ROLE}}
    binding: Object = {
        "apiVersion": f"{api_group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": LEASE_ROLE},
    }
    if api.find(f"{ROLES}/{LEASE_ROLE}") is None:
        api.create(ROLES, {**role, "rules": [rule]})
        subject = {"kind": "User", "name": CONTROLLER_USER, "apiGroup": api_group}
        reference = {"kind": "Role", "name": LEASE_ROLE, "apiGroup": api_group}
        api.create(BINDINGS, {**binding, "roleRef": reference, "subjects": [subject]})
