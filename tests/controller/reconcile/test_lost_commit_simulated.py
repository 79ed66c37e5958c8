"""A commit with a lost answer, whose status write is applied only after its seat is due for release."""

from __future__ import annotations

import anyio
import pytest

from simulation.apiserver.kinds import LEDGERS, WORKLOADS
from simulation.chaos.scripted import ArriveLate, Delay, Faults
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


async def test_an_unanswered_commit_is_fenced_before_its_seat_is_released() -> None:
    faults = Faults()
    faults.add(ArriveLate(3), verb="patch", kind=WORKLOADS, subresource="status")
    faults.add(Delay(before_seconds=10), verb="patch", kind=LEDGERS)
    async with SimulatedCluster() as cluster:
        cluster.fleet.add_nodes(1)
        invariants = InvariantChecker(cluster)
        async with simulated_controller(cluster, identity="first", interceptor=faults):
            cluster.workloads.submit(workload("trainer"))
            await anyio.sleep(4)
            assert "claimName" not in cluster.workloads.status("trainer"), "the late write was refused"
            async with simulated_controller(cluster, identity="second"):
                await cluster.wait_until(lambda: cluster.workloads.in_phase("Running"), "no worker runs")
                # The first controller's release of the seat arrives only now.
                await cluster.settle()

        assert invariants.violations == []
        assert violations_at_rest(cluster) == []
        assert len(cluster.workloads.seats()) == 1


async def test_an_adopted_seat_is_fenced_before_it_is_released() -> None:
    """Its booking process commits between the live read of the status and the release."""
    first_faults, second_faults = Faults(), Faults()
    first_faults.add(Delay(before_seconds=1.5), verb="create", kind=LEDGERS)
    # The first patch of the ledger adopts the seat, the second releases it long after the commit.
    first_faults.add(Delay(before_seconds=10), verb="patch", kind=LEDGERS, skip=1)
    second_faults.add(Delay(before_seconds=3), verb="patch", kind=WORKLOADS, subresource="status")
    # Its repair is too late.
    second_faults.add(Delay(before_seconds=12), verb="patch", kind=LEDGERS)
    async with SimulatedCluster() as cluster:
        cluster.fleet.add_nodes(1)
        invariants = InvariantChecker(cluster)
        async with simulated_controller(cluster, identity="first", interceptor=first_faults):
            cluster.workloads.submit(workload("trainer"))
            await anyio.sleep(1)
            # From here on the first controller decides on an old version; the second starts up to date.
            touch = {"metadata": {"labels": {"touched": "yes"}}}
            cluster.server.patch(WORKLOADS, "trainer", cluster.workloads.namespace, touch)
            async with simulated_controller(cluster, identity="second", interceptor=second_faults):
                await cluster.wait_until(lambda: cluster.workloads.in_phase("Running"), "no worker runs")
                await anyio.sleep(15)
                await cluster.settle()

        assert invariants.violations == []
        assert violations_at_rest(cluster) == []
        assert len(cluster.workloads.seats()) == 1
