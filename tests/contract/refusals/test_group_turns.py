"""Workers that are refused alike: one asks for all, the oldest goes first, and waiting costs nothing."""

from __future__ import annotations

import anyio
import pytest

from simulation.apiserver.admission.chain import AdmissionRequest
from simulation.apiserver.admission.denials import DenyingPolicy, DenyingWebhook, MissingReference
from simulation.apiserver.admission.quotas import Quota
from simulation.apiserver.kinds import LEDGERS, PODS, WORKLOADS, Kind
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    count_calls,
    holdings,
    row,
    settings_with,
    submit,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
FOREVER = settings_with(placement_timeout_seconds=0.0)
LARGE = NodeShape(gpus=64, host_memory="4Ti", cpu="2000", pods=1000)
PROBES_IN_A_MINUTE = 7
"""After 1, 2, 4, 8, 16 and 32 seconds, and the first attempt."""


async def test_a_group_sends_one_probe_at_a_time_and_each_worker_costs_one_status_write(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1, LARGE)
    async with simulated_controller(cluster, FOREVER):
        with cluster.server.admission.applied(DenyingPolicy(PODS, message="no")):
            await submit(cluster, "first")
            since = len(cluster.audit)
            for number in range(40):
                cluster.workloads.submit(workload(f"worker-{number:03}"))
            await anyio.sleep(60)
            assert count_calls(cluster, "create", PODS, since=since) <= PROBES_IN_A_MINUTE
            written = count_calls(cluster, "patch", WORKLOADS, since=since)
            assert written <= 2 * 40, "a finalizer and a status for each"
            since = len(cluster.audit)
            await anyio.sleep(600)
            assert count_calls(cluster, "patch", WORKLOADS, since=since) == 0
            assert count_calls(cluster, "create", PODS, since=since) <= 11
        await anyio.sleep(61)
        await cluster.settle()
        assert len(cluster.workloads.in_phase("Running")) == 41


async def test_the_oldest_worker_over_a_quota_starts_when_a_pod_ends(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, LARGE)
    async with simulated_controller(cluster, FOREVER):
        cluster.quota_controller.add(Quota(PODS, NAMESPACE, hard=2))
        names = [f"worker-{number}" for number in range(6)]
        await submit(cluster, *names, shared=False)
        await anyio.sleep(300)
        for ended, started in zip(names[:3], names[2:5], strict=True):
            cluster.workloads.delete(ended)
            await anyio.sleep(10)
            assert row(cluster, started)[0] == "Running"
            assert len(cluster.workloads.in_phase("Running")) == 2


class MissingServiceAccount(MissingReference):
    """Refuses only the Pods that name the missing ServiceAccount."""

    def check(self, request: AdmissionRequest) -> None:
        """Refuse the creation of such a Pod."""
        if request.document["spec"].get("serviceAccountName") == "missing":
            super().check(request)


async def test_a_member_with_a_faulty_template_keeps_nobody_out(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, LARGE)
    faulty = workload("a-faulty")
    faulty["spec"]["template"]["spec"]["serviceAccountName"] = "missing"
    async with simulated_controller(cluster, FOREVER):
        cluster.server.admission.add(MissingServiceAccount(PODS))
        with cluster.server.admission.applied(DenyingPolicy(PODS, message="no")):
            cluster.workloads.submit(faulty)
            await submit(cluster, "b-good", "c-good")
            await anyio.sleep(120)
        await anyio.sleep(130)
        assert cluster.workloads.in_phase("Running") == ["b-good", "c-good"]
        assert "service account" in row(cluster, "a-faulty")[3]


async def test_refused_workers_are_held_after_a_restart(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, LARGE)
    names = [f"worker-{number}" for number in range(10)]
    with cluster.server.admission.applied(DenyingPolicy(PODS, message="no")):
        async with simulated_controller(cluster, FOREVER):
            await submit(cluster, *names)
            await anyio.sleep(60)
        since = len(cluster.audit)
        async with simulated_controller(cluster, FOREVER, identity="next"):
            await anyio.sleep(60)
            assert count_calls(cluster, "create", PODS, since=since) <= PROBES_IN_A_MINUTE
            assert count_calls(cluster, "patch", WORKLOADS, since=since) == 0
            assert holdings(cluster) == []
    async with simulated_controller(cluster, FOREVER, identity="last"):
        await anyio.sleep(61)
        await cluster.settle()
        assert len(cluster.workloads.in_phase("Running")) == len(names)


async def test_the_deletion_of_the_member_that_probes_next_stops_no_probe(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, LARGE)
    async with simulated_controller(cluster, FOREVER):
        with cluster.server.admission.applied(DenyingPolicy(PODS, message="no")):
            await submit(cluster, "a", "b", "c")
            await anyio.sleep(30)
            cluster.workloads.delete("a")
            cluster.workloads.delete("b")
            await anyio.sleep(60)
        await anyio.sleep(61)
        assert row(cluster, "c")[0] == "Running"


async def test_workers_that_cannot_share_are_a_group_as_well(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1, LARGE)
    async with simulated_controller(cluster, FOREVER):
        with cluster.server.admission.applied(DenyingPolicy(PODS, message="no")):
            since = len(cluster.audit)
            for number in range(10):
                cluster.workloads.submit(workload(f"pair-{number}", shared=False, devices=2))
            await anyio.sleep(60)
            first_attempts = 4  # by the workers of the queue at once
            assert count_calls(cluster, "create", PODS, since=since) <= PROBES_IN_A_MINUTE + first_attempts
            assert holdings(cluster) == []


@pytest.mark.parametrize("kind", [PODS, LEDGERS], ids=["pods", "ledgers"])
async def test_members_stay_one_group_where_there_is_no_dry_run(
    cluster: SimulatedCluster, kind: Kind
) -> None:
    """A real attempt takes the place of the dry run: no other member is suspected for its result."""
    cluster.fleet.add_nodes(1, LARGE)
    async with simulated_controller(cluster, FOREVER):
        webhook = DenyingWebhook(kind, supports_dry_run=False)
        with cluster.server.admission.applied(webhook):
            await submit(cluster, *[f"worker-{number}" for number in range(6)])
            await anyio.sleep(300)
            since = len(cluster.audit)
            await anyio.sleep(600)
            assert count_calls(cluster, "create", kind, since=since) <= 2 * 11
