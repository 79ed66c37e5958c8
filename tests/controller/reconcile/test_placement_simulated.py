"""The main path in a simulated cluster: the scenarios of `e2e/test_placement.py`, in virtual time.

The controller has a retry interval of an hour, so that every step that a test sees was caused by an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import anyio
import pytest

from controller.config.flags import Settings
from simulation.apiserver.kinds import LEDGERS
from simulation.cluster.controller_process import SETTINGS, simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend

pytestmark = pytest.mark.anyio

LIMIT_OF_TWO = SETTINGS.model_copy(update={"max_seats_per_claim": 2})
LIMIT_SENTENCE = "shared claims hold at most 2 workers"


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    async with SimulatedCluster() as cluster:
        yield cluster


async def submitted(cluster: SimulatedCluster, *names: str) -> None:
    """Submit sharing workers and wait until the cluster has settled."""
    cluster.workloads.submit(*(workload(name) for name in names))
    await cluster.settle()


def most_seats(cluster: SimulatedCluster) -> int:
    """Return the highest number of seats that any ledger had at any revision."""
    changes = cluster.server.history(LEDGERS)
    return max(len(change.record.document["spec"].get("seats", [])) for change in changes)


async def test_a_workload_gets_a_dedicated_claim_and_a_running_pod(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submitted(cluster, "trainer")

        status = cluster.workloads.status("trainer")
        (claim,) = cluster.workloads.claims()
        (ledger,) = cluster.workloads.ledgers()
        (pod,) = cluster.workloads.pods()
        (seat,) = ledger["spec"]["seats"]
        assert status["phase"] == "Running"
        assert status["claimName"] == claim["metadata"]["name"] == ledger["spec"]["claimName"]
        assert status["assignmentID"] == seat["assignmentID"]
        placed = (status["nodeName"], status["deviceCount"], status["memoryPerDevice"])
        assert placed == ("gpu-node-0", 1, "20Gi")
        assert claim["metadata"]["ownerReferences"][0]["uid"] == ledger["metadata"]["uid"]
        assert pod["metadata"]["name"] == status["podName"] == "orw-trainer"
        env = {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]}
        assert env == {
            "OPEN_RL_TIME_SLICE_GROUP": claim["metadata"]["name"],
            "OPEN_RL_CLAIM_LEDGER": ledger["metadata"]["name"],
            "OPEN_RL_ASSIGNMENT_ID": seat["assignmentID"],
        }
        assert "reason" not in status
        conditions = [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]
        assert conditions == [("Placed", "True", "Placed")]


async def test_a_second_worker_joins_an_allocated_claim(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster):
        await submitted(cluster, "first")
        await submitted(cluster, "second")

    claim = cluster.workloads.status("first")["claimName"]
    assert cluster.workloads.in_phase("Running") == ["first", "second"]
    assert cluster.workloads.seats() == {claim: ["first", "second"]}
    assert len(cluster.workloads.claims()) == 1


async def test_the_limit_holds_at_every_revision_when_twelve_workers_arrive_at_once(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(3)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submitted(cluster, *(f"worker-{n:02}" for n in range(12)))

    assert most_seats(cluster) == 2
    running = cluster.workloads.in_phase("Running")
    assert len(running) == len(cluster.workloads.in_phase("Pending")) == 6
    shared = Counter(cluster.workloads.status(name)["claimName"] for name in running)
    assert sorted(shared.values()) == [2, 2, 2]


async def test_two_workers_racing_for_the_last_two_seats_get_one_each_and_create_no_claim(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(2)
    # A limit of one leads to two claims with one worker each; then two controllers race at a limit of two.
    async with simulated_controller(cluster, SETTINGS.model_copy(update={"max_seats_per_claim": 1})):
        await submitted(cluster, "first", "second")
    claims = {claim["metadata"]["name"] for claim in cluster.workloads.claims()}
    assert len(claims) == 2
    before = len(cluster.server.history(LEDGERS))

    async with (
        simulated_controller(cluster, LIMIT_OF_TWO, identity="racer-0"),
        simulated_controller(cluster, LIMIT_OF_TWO, identity="racer-1"),
    ):
        await submitted(cluster, "third", "fourth")

    assert len(cluster.workloads.in_phase("Running")) == 4
    assert {status["claimName"] for status in cluster.workloads.statuses().values()} == claims
    assert {claim["metadata"]["name"] for claim in cluster.workloads.claims()} == claims
    assert sorted(len(seats) for seats in cluster.workloads.seats().values()) == [2, 2]
    assert most_seats(cluster) == 2
    written = {change.record.key.name for change in cluster.server.history(LEDGERS)[before:]}
    assert len(written) == 2, "a claim was created although seats were free"


async def test_a_wait_reason_mentions_the_limit_only_for_a_shared_worker(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    cluster.fleet.add_nodes(1, NodeShape(gpus=2, gpu_memory="40Gi"), prefix="pair")
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        cluster.workloads.submit(workload("pair-holder", devices=2, memory="30Gi"))
        await cluster.settle()
        cluster.workloads.submit(*(workload(name, memory="60Gi") for name in ("first", "second")))
        await cluster.settle()
        assert len(cluster.workloads.in_phase("Running")) == 3

        cluster.workloads.submit(
            workload("shareable", memory="60Gi"),
            workload("lora", memory="60Gi", shared=False),
            workload("two-gpus", memory="30Gi", devices=2),
        )
        await cluster.settle()

    assert cluster.workloads.in_phase("Pending") == ["lora", "shareable", "two-gpus"]
    reasons = {name: cluster.workloads.status(name) for name in cluster.workloads.in_phase("Pending")}
    assert all(status["reason"].startswith("WaitingForCapacity: ") for status in reasons.values())
    assert LIMIT_SENTENCE in reasons["shareable"]["reason"]
    for name in ("lora", "two-gpus"):
        text = reasons[name]["reason"] + reasons[name]["conditions"][0]["message"]
        assert "shared claims hold" not in text


async def test_a_freed_seat_goes_to_a_waiting_worker_within_a_second(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, LIMIT_OF_TWO):
        await submitted(cluster, "first", "second")
        await submitted(cluster, "waiter")
        assert cluster.workloads.in_phase("Pending") == ["waiter"]
        shared = cluster.workloads.status("first")["claimName"]

        cluster.workloads.delete("second")
        await cluster.wait_until(lambda: "second" not in cluster.workloads.seats()[shared], "no seat freed")
        freed_seconds = anyio.current_time()
        await cluster.wait_until(lambda: "waiter" in cluster.workloads.seats()[shared], "not booked again")

        assert anyio.current_time() - freed_seconds < 1
        await cluster.settle()
    assert cluster.workloads.in_phase("Running") == ["first", "waiter"]
    assert cluster.workloads.seats() == {shared: ["first", "waiter"]}, "the waiter's own claim is given up"


async def test_deleting_a_workload_releases_seat_pod_claim_and_ledger(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submitted(cluster, "first", "second")

        cluster.workloads.delete("first")
        await cluster.settle()
        assert list(cluster.workloads.seats().values()) == [["second"]]
        assert len(cluster.workloads.pods()) == 1
        assert len(cluster.workloads.claims()) == 1, "the claim is kept while it has a seat"
        cluster.workloads.delete("second")
        await cluster.settle()

    assert cluster.workloads.is_empty()


async def test_an_exclusive_worker_never_shares(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("lora", shared=False))
        await cluster.settle()
        await submitted(cluster, "first", "second")
        cluster.workloads.submit(workload("late-lora", shared=False))
        await cluster.settle()

    assert cluster.workloads.status("late-lora")["reason"].startswith("WaitingForCapacity: ")
    by_claim = sorted(sorted(names) for names in cluster.workloads.seats().values())
    assert by_claim == [["first", "second"], ["late-lora"], ["lora"]]


async def test_a_two_gpu_worker_gets_two_devices_on_one_node(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(2)
    cluster.fleet.add_nodes(1, NodeShape(gpus=2), prefix="pair")
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("pair-worker", devices=2))
        await cluster.settle()

    status = cluster.workloads.status("pair-worker")
    (claim,) = cluster.workloads.claims()
    results = claim["status"]["allocation"]["devices"]["results"]
    assert len({(r["pool"], r["device"]) for r in results}) == 2
    assert {r["request"] for r in results} == {"gpu/t2x80"}
    assert (status["phase"], status["nodeName"], status["deviceCount"]) == ("Running", "pair-0", 2)


async def test_a_dedicated_placement_needs_six_writes_a_join_five_and_neither_reads(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        for name, writes in (("creator", 6), ("joiner", 5)):
            mark = len(cluster.audit)
            await submitted(cluster, name)
            requests = [entry.request for entry in cluster.calls(since=mark)]
            # Events may be dropped, so no placement waits for one.
            written = [request for request in requests if request.writes and request.kind.plural != "events"]
            assert len(written) == writes, [str(request) for request in requests]
            assert not {request.verb for request in requests} & {"get", "list"}
            assert cluster.workloads.status(name)["phase"] == "Running"


async def test_stopping_the_controller_keeps_the_workers_running(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        await submitted(cluster, "trainer")
    before = cluster.workloads.status("trainer")
    (pod,) = cluster.workloads.pods()
    revision = cluster.server.store.revision

    async with simulated_controller(cluster, identity="successor"):
        await cluster.settle()

    assert cluster.workloads.status("trainer") == before
    assert cluster.workloads.pods() == [pod]
    assert cluster.server.store.revision == revision, "a start at rest writes nothing"


async def test_only_the_leader_of_two_controllers_writes(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    elected: Settings = SETTINGS.model_copy(update={"leader_elect": True})
    async with (
        simulated_controller(cluster, elected, identity="one") as one,
        simulated_controller(cluster, elected, identity="two") as two,
    ):
        await cluster.wait_until(
            lambda: one.leadership.leading or two.leadership.leading, "no controller leads"
        )
        cluster.workloads.submit(workload("trainer"))
        await cluster.wait_until(lambda: cluster.workloads.in_phase("Running"), "the worker does not run")
        leader, standby = (one, two) if one.leadership.leading else (two, one)
        assert not standby.leadership.leading

        await leader.crash()
        await cluster.wait_until(lambda: standby.leadership.leading, "no controller takes over")
        cluster.workloads.submit(workload("late"))
        await cluster.wait_until(lambda: len(cluster.workloads.in_phase("Running")) == 2, "only one runs")
