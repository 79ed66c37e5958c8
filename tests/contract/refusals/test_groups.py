"""Workers that are refused alike wait as one, and what ends the refusal lets them in, oldest first."""

from __future__ import annotations

import anyio
import pytest

from informers.errors import ApiError, BadRequest, Conflict, Invalid, NotFound, ServerError, TooManyRequests
from simulation.apiserver.admission.denials import DenyingWebhook
from simulation.apiserver.admission.quotas import Quota
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, Kind
from simulation.chaos.scripted import Faults, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import count_calls, holdings, round_trip_seconds, row, settings_with, submit

pytestmark = pytest.mark.anyio

WORDS = 'admission webhook "check.example.com" denied the request: not now'
NO_TIMEOUT = settings_with(placement_timeout_seconds=0.0)


@pytest.mark.parametrize("kind", [PODS, CLAIMS, LEDGERS], ids=lambda kind: kind.plural)
@pytest.mark.parametrize(
    "error",
    [
        BadRequest(WORDS, status=400),
        NotFound('namespaces "openrl-system" not found', status=404),
        Conflict(WORDS, status=409),
        Invalid(WORDS, status=422, fields=("spec",)),
        TooManyRequests(WORDS, status=429),
        ServerError("etcdserver: request timed out", status=500),
    ],
    ids=lambda error: str(error.status),
)
@pytest.mark.parametrize("strategy", ["binpack", "spread"])
async def test_every_refusal_has_words_and_ends(
    cluster: SimulatedCluster, kind: Kind, error: ApiError, strategy: str
) -> None:
    faults = Faults()
    faults.add(Refuse(lambda: error), verb="create", kind=kind, times=None)
    settings = settings_with(placement_timeout_seconds=0.0, placement_strategy=strategy)
    async with simulated_controller(cluster, settings, interceptor=faults):
        cluster.fleet.add_nodes(1)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        phase, _, code, reason = row(cluster, "worker")
        assert (phase, code) == ("Pending", "PodRejected")
        assert error.message in reason
        faults.clear()
        await anyio.sleep(70)
        assert row(cluster, "worker")[0] == "Running"


async def test_a_full_quota_costs_one_probe_at_a_time_and_the_oldest_goes_first(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1, NodeShape(host_memory="4Ti", cpu="2000", pods=1000))
    cluster.quota_controller.add(Quota(PODS, "openrl-system", hard=1))
    async with simulated_controller(cluster, NO_TIMEOUT, latency_seconds=round_trip_seconds):
        await submit(cluster, "creator")
        names = [f"worker-{number:02}" for number in range(40)]
        for name in names:
            cluster.workloads.submit(workload(name))
        await anyio.sleep(60)
        assert {row(cluster, name)[2] for name in names} == {"PodRejected"}
        since = len(cluster.calls())
        await anyio.sleep(120)
        assert count_calls(cluster, "create", PODS, since=since) <= 3
        cluster.workloads.delete("creator")
        await anyio.sleep(60)
        assert [name for name in names if row(cluster, name)[0] == "Running"] == ["worker-00"]


async def test_a_restart_begins_with_the_groups_of_the_statuses(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    with cluster.server.admission.applied(DenyingWebhook(PODS)):
        async with simulated_controller(cluster, NO_TIMEOUT):
            await submit(cluster, "one", "two")
            await anyio.sleep(30)
        since = len(cluster.calls())
        async with simulated_controller(cluster, NO_TIMEOUT, identity="next"):
            await anyio.sleep(5)
            assert holdings(cluster) == []
            assert count_calls(cluster, "create", CLAIMS, since=since) == 0


async def test_a_worker_that_is_deleted_while_held_passes_its_turn_on(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, NO_TIMEOUT):
        with cluster.server.admission.applied(DenyingWebhook(PODS, supports_dry_run=False)):
            await submit(cluster, "one", "two", "three")
            await anyio.sleep(30)
            cluster.workloads.delete("one")
            await anyio.sleep(5)
        await anyio.sleep(70)
        assert [row(cluster, name)[0] for name in ("two", "three")] == ["Running", "Running"]


async def test_a_template_at_fault_keeps_nobody_out(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(
        Refuse(lambda: ApiError("error looking up service account: not found", status=403)),
        verb="create",
        kind=PODS,
        name="orw-faulty",
        times=None,
    )
    async with simulated_controller(cluster, NO_TIMEOUT, interceptor=faults):
        await submit(cluster, "faulty", "good", "better")
        await anyio.sleep(60)
        assert [row(cluster, name)[0] for name in ("good", "better")] == ["Running", "Running"]
        assert row(cluster, "faulty")[2] == "PodRejected"
