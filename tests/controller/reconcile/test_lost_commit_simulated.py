"""A commit whose answer is lost, and whose status write lands after the seat was found to be given back."""

from __future__ import annotations

import anyio
import pytest

from simulation.apiserver.kinds import LEDGERS, WORKLOADS
from simulation.chaos.scripted import ArriveLate, Delay, Faults
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


async def test_a_commit_without_an_answer_is_fenced_before_its_seat_is_given_back() -> None:
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
                # The first one's release of the seat arrives only now.
                await cluster.settle()

        assert invariants.violations == []
        assert violations_at_rest(cluster) == []
        assert len(cluster.workloads.seats()) == 1


async def test_a_seat_that_was_adopted_is_fenced_before_it_is_given_back() -> None:
    """It was another process's: that one commits between the look at the status and the release."""
    first_faults, second_faults = Faults(), Faults()
    first_faults.add(Delay(before_seconds=1.5), verb="create", kind=LEDGERS)
    # The first patch of the ledger adopts the seat, the second gives it back, long after the commit.
    first_faults.add(Delay(before_seconds=10), verb="patch", kind=LEDGERS, skip=1)
    second_faults.add(Delay(before_seconds=3), verb="patch", kind=WORKLOADS, subresource="status")
    # Its repair comes too late to save it.
    second_faults.add(Delay(before_seconds=12), verb="patch", kind=LEDGERS)
    async with SimulatedCluster() as cluster:
        cluster.fleet.add_nodes(1)
        invariants = InvariantChecker(cluster)
        async with simulated_controller(cluster, identity="first", interceptor=first_faults):
            cluster.workloads.submit(workload("trainer"))
            await anyio.sleep(1)
            # What the first one decides from is old from here on; the second one starts with what is.
            touch = {"metadata": {"labels": {"touched": "yes"}}}
            cluster.server.patch(WORKLOADS, "trainer", cluster.workloads.namespace, touch)
            async with simulated_controller(cluster, identity="second", interceptor=second_faults):
                await cluster.wait_until(lambda: cluster.workloads.in_phase("Running"), "no worker runs")
                await anyio.sleep(15)
                await cluster.settle()

        assert invariants.violations == []
        assert violations_at_rest(cluster) == []
        assert len(cluster.workloads.seats()) == 1
