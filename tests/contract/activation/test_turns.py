"""Workers of one process book the seats of one ledger without conflicts."""

from __future__ import annotations

import pytest

from informers.errors import Conflict
from simulation.apiserver.kinds import LEDGERS
from simulation.checks.invariants import violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import claim_of, round_trip_seconds, submit
from tests.contract.hours import HOURS

pytestmark = pytest.mark.anyio

WORKERS = 12
"""More than the attempts of one booking."""


async def test_concurrent_workers_of_one_process_book_seats_without_a_conflict(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    settings = HOURS.model_copy(update={"max_concurrent_reconciles": WORKERS})
    async with simulated_controller(cluster, settings, latency_seconds=round_trip_seconds) as process:
        await submit(cluster, "creator")
        since = len(cluster.audit)
        names = [f"worker-{number:02}" for number in range(WORKERS)]
        cluster.workloads.submit(*(workload(name, memory="4Gi") for name in names))
        await cluster.settle()
        assert {claim_of(cluster, name) for name in names} == {claim_of(cluster, "creator")}
        calls = [each for each in cluster.calls(since=since) if each.request.kind is LEDGERS]
        assert [each.request for each in calls if isinstance(each.error, Conflict)] == []
        assert not process.controller.claim_locks._locks, "no lock remains without a holder"
    assert violations_at_rest(cluster) == []
