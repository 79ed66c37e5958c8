"""The metrics of a simulated cluster: seats, waiting workers, and the activity of the controller."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from controller.api.reasons import ReasonCode
from controller.metrics import definitions as m
from simulation.apiserver.kinds import LEDGERS, PODS
from simulation.cluster.controller_process import SETTINGS, simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.controller.metrics.scraping import scrape_process
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio

LIMIT_OF_TWO = SETTINGS.model_copy(update={"max_seats_per_claim": 2})
WITH_ELECTION = LIMIT_OF_TWO.model_copy(update={"leader_elect": True})


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    async with SimulatedCluster() as cluster:
        yield cluster


async def submitted(cluster: SimulatedCluster, *names: str) -> None:
    """Submit shareable workers one by one, each after the cluster settled, so that their ages differ."""
    for name in names:
        cluster.workloads.submit(workload(name))
        await cluster.settle()


async def running(cluster: SimulatedCluster, *names: str) -> None:
    """Wait until exactly these workers run. A cluster with a renewed lease never settles."""
    await cluster.wait_until(lambda: cluster.workloads.in_phase("Running") == list(names), "others run")


async def test_a_full_fleet_shows_its_seats_and_its_longest_wait(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster, LIMIT_OF_TWO) as process:
        await submitted(cluster, "a", "b", "c", "d", "waits-1", "waits-2")
        cluster.workloads.submit(workload("alone", shared=False))
        await cluster.settle()
        waited = scrape_process(process).value(m.OLDEST_WAIT)
        await anyio.sleep(120)

        now = scrape_process(process)
        assert now.values(m.WORKLOADS) == {"Running": 4, "Pending": 3}
        assert now.values(m.WAITING_WORKERS) == {ReasonCode.WAITING_FOR_CAPACITY.value: 3}
        assert now.values(m.WORKLOAD_REASONS) == {ReasonCode.WAITING_FOR_CAPACITY.value: 3}
        assert now.value(m.OLDEST_WAIT) - waited == pytest.approx(120)
        assert now.values(m.SEATS) == {"shareable": 6, "exclusive": 1}
        assert now.values(m.LEDGERS) == {"shareable": 4, "exclusive": 1}
        assert now.value(m.LEDGERS_AT_LIMIT) == 2
        assert now.value(m.SEAT_LIMIT) == 2
        assert now.values(m.CLAIMS) == {"allocated": 2, "unallocated": 3}
        assert now.values(m.DEVICES) == {"present": 2, "allocated": 2}
        assert now.value(m.NODES) == 2
        assert now.values(m.ASSIGNMENTS) == {"dedicated": 5, "shared": 2}

        for name in ("waits-1", "waits-2", "alone"):
            cluster.workloads.delete(name)
        await cluster.settle()
        after = scrape_process(process)
        assert (after.values(m.WAITING_WORKERS), after.value(m.OLDEST_WAIT)) == ({}, 0)


async def test_a_hand_off_is_observed_and_a_seat_without_a_taker_is_not(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO) as process:
        await submitted(cluster, "a", "b")
        cluster.workloads.delete("b")
        await cluster.settle()
        await anyio.sleep(60)
        await submitted(cluster, "c", "waits-1", "waits-2")
        assert scrape_process(process).observations(m.HAND_OFF) == (0, 0)

        cluster.workloads.delete("c")
        await cluster.settle()
        assert cluster.workloads.status("waits-1")["phase"] == "Running"
        count, seconds = scrape_process(process).observations(m.HAND_OFF)
        assert count == 1
        assert seconds < 1
        assert scrape_process(process).values(m.ASSIGNMENTS)["fallback"] == 1


async def test_two_seats_freed_together_are_two_hand_offs(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(
        cluster, SETTINGS.model_copy(update={"max_seats_per_claim": 3})
    ) as process:
        await submitted(cluster, "a", "b", "c", "waits-1", "waits-2", "waits-3")
        cluster.workloads.delete("b")
        cluster.workloads.delete("c")
        await cluster.settle()

        assert cluster.workloads.in_phase("Running") == ["a", "waits-1", "waits-2"]
        assert scrape_process(process).observations(m.HAND_OFF)[0] == 2


async def test_waits_and_ends_are_counted(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    settings = LIMIT_OF_TWO.model_copy(update={"placement_timeout_seconds": 300.0})
    async with simulated_controller(cluster, settings) as process:
        await submitted(cluster, "a", "b", "waits-1", "waits-2")
        await anyio.sleep(100)
        cluster.workloads.delete("a")
        await cluster.settle()
        count, seconds = scrape_process(process).observations(m.WAIT)
        assert count == 3
        assert 100 < seconds < 150, "two workers fitted at once, one waited for a seat"

        await anyio.sleep(300)
        await cluster.settle()
        assert scrape_process(process).values(m.ENDED) == {ReasonCode.PLACEMENT_TIMEOUT.value: 1}


async def test_restoring_a_seat_removed_by_hand_is_a_repair(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO) as process:
        await submitted(cluster, "a", "b")
        before = scrape_process(process)
        (ledger,) = cluster.workloads.ledgers()
        kept = [seat for seat in ledger["spec"]["seats"] if seat["workload"] == "a"]
        cluster.server.patch(
            LEDGERS, ledger["metadata"]["name"], cluster.workloads.namespace, {"spec": {"seats": kept}}
        )
        await cluster.settle()

        assert before.values(m.REPAIRS) == {}
        assert scrape_process(process).values(m.REPAIRS) == {"seat": 1}
        assert scrape_process(process).values(m.SEATS) == {"shareable": 2}


async def test_a_worker_on_a_dead_node_has_a_reason_although_it_is_not_queued(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO) as process:
        await submitted(cluster, "a")
        cluster.kubelet.pause()
        pod = cluster.workloads.pod_key("a")
        cluster.server.delete(PODS, pod.name, pod.namespace)
        await cluster.settle()
        await anyio.sleep(60)

        now = scrape_process(process)
        assert now.values(m.WORKLOAD_REASONS) == {ReasonCode.WAITING_FOR_POD_GONE.value: 1}
        assert now.values(m.WAITING_WORKERS) == {}
        cluster.kubelet.resume()


async def test_a_standby_shows_the_fleet_and_no_activity(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with (
        simulated_controller(cluster, WITH_ELECTION, identity="first") as first,
        simulated_controller(cluster, WITH_ELECTION, identity="second") as second,
    ):
        cluster.workloads.submit(workload("a"), workload("b"))
        await running(cluster, "a", "b")
        cluster.workloads.submit(workload("waits"))
        await cluster.wait_until(lambda: bool(cluster.workloads.in_phase("Pending")), "no worker waits")
        cluster.workloads.delete("a")
        await running(cluster, "b", "waits")
        await anyio.sleep(1)
        processes = sorted((first, second), key=lambda process: process.leadership.leading)
        standby, leader = (scrape_process(process) for process in processes)
        lease = {"name": "placement.openrl.io"}

        assert (standby.value(m.LEADING, **lease), leader.value(m.LEADING, **lease)) == (0, 1)
        for definition in (m.WORKLOADS, m.SEATS, m.LEDGERS, m.CLAIMS, m.DEVICES, m.WAITING_WORKERS):
            assert standby.values(definition) == leader.values(definition)
        assert standby.values(m.ASSIGNMENTS) == {}
        assert standby.observations(m.HAND_OFF) == (0, 0)
        assert leader.observations(m.HAND_OFF)[0] == 1


async def test_the_gauges_equal_a_fresh_count_of_the_caches(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster, LIMIT_OF_TWO) as process:
        cluster.workloads.submit(*(workload(f"w-{n}", shared=n % 4 != 3) for n in range(10)))
        await cluster.settle()
        for n in (0, 3, 5):
            cluster.workloads.delete(f"w-{n}")
        await cluster.settle()
        cluster.workloads.submit(*(workload(f"late-{n}") for n in range(3)))
        await cluster.settle()

        now, caches = scrape_process(process), process.controller.caches
        ledgers = [ledger.seats for ledger in caches.ledgers.store]
        alone = [seats for seats in ledgers if any(seat.exclusive for seat in seats)]
        assert sum(now.values(m.WORKLOADS).values()) == len(caches.workloads.store)
        reasons = [workload.status.reason for workload in caches.workloads.store if not workload.terminal]
        assert sum(now.values(m.WORKLOAD_REASONS).values()) == sum(reason != "" for reason in reasons)
        assert sum(now.values(m.LEDGERS).values()) == len(ledgers)
        assert now.values(m.LEDGERS)["exclusive"] == len(alone)
        assert sum(now.values(m.SEATS).values()) == sum(len(seats) for seats in ledgers)
        assert sum(now.values(m.WAITING_WORKERS).values()) == len(process.controller.scheduling_queue)
        assert now.values(m.CLAIMS)["allocated"] == sum(claim.allocated for claim in caches.claims.store)
