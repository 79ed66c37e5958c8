"""The simulated cluster as a whole: determinism, waiting, and its actors on command."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import anyio
import pytest

from informers.api import ObjectKey
from simulation.actors.base import Delays
from simulation.apiserver.documents import format_time
from simulation.apiserver.interception import Request
from simulation.apiserver.kinds import CLAIMS, LEDGERS, NAMESPACES, NODES, PODS
from simulation.apiserver.refusals import Refusal
from simulation.chaos.scripted import Delay, Faults, LoseAnswer
from simulation.cluster.controller_process import SETTINGS, simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import NotSettled, SimulatedCluster
from simulation.cluster.workloads import workload
from tests.virtualtime import run_virtual

pytestmark = pytest.mark.anyio

LIMIT_OF_TWO = SETTINGS.model_copy(update={"max_seats_per_claim": 2, "retry_interval_seconds": 10.0})


async def eventful_run(seed: int) -> str:
    """Return the digest of a run with much randomness, over every version of every object."""
    async with SimulatedCluster(seed=seed, delays=Delays(spread=1.0)) as cluster:
        latency = cluster.rng("latency")

        def latency_seconds(_request: Request) -> float:
            return latency.uniform(0.0, 0.02)

        faults = Faults()
        faults.add(LoseAnswer(), verb="patch", skip=5, times=3)
        cluster.fleet.add_nodes(3)
        async with simulated_controller(
            cluster, LIMIT_OF_TWO, identity="one", interceptor=faults, latency_seconds=latency_seconds
        ) as one:
            cluster.workloads.submit(*(workload(f"w-{n:02}") for n in range(10)))
            await anyio.sleep(0.1)
            async with simulated_controller(
                cluster, LIMIT_OF_TWO, identity="two", latency_seconds=latency_seconds
            ):
                await anyio.sleep(0.2)
                await one.crash()
                cluster.workloads.delete("w-03")
                cluster.workloads.delete("w-07")
                await cluster.settle()
        digest = hashlib.sha256()
        for change in cluster.server.history():
            digest.update(change.record.data)
        for entry in cluster.audit:
            digest.update(str(entry).encode())
        return digest.hexdigest()


def digest_in_another_process(seed: int, hash_seed: str) -> str:
    program = f"from tests.simulation.cluster.test_cluster import *; print(run_virtual(eventful_run, {seed}))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    )
    return answer.stdout.splitlines()[-1]


def test_a_seed_has_one_digest_in_every_process_and_under_every_hash_seed() -> None:
    here = run_virtual(eventful_run, 7)

    assert digest_in_another_process(7, "1") == here
    assert digest_in_another_process(7, "2") == here


def test_seeds_differ_in_digest_and_runs_are_independent() -> None:
    first = run_virtual(eventful_run, 7)

    assert run_virtual(eventful_run, 8) != first
    assert run_virtual(eventful_run, 7) == first


async def test_settling_waits_for_calls_in_flight(cluster: SimulatedCluster) -> None:
    faults = Faults()
    faults.add(Delay(before_seconds=14), verb="create", kind=PODS)
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, interceptor=faults):
        cluster.workloads.submit(workload("slow"))
        await cluster.settle(quiet_seconds=2)

        assert cluster.workloads.in_phase("Running") == ["slow"]


async def test_a_cluster_that_never_comes_to_rest_raises_not_settled(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)

    async def keep_writing() -> None:
        while True:
            cluster.fleet.set_labels("gpu-node-0", {"time": str(anyio.current_time())})
            await anyio.sleep(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_writing)
        with pytest.raises(NotSettled, match="still receives writes"):
            await cluster.settle(limit_seconds=60)
        with pytest.raises(NotSettled, match="missing"):
            await cluster.wait_until(lambda: cluster.workloads.get("absent"), "missing", limit_seconds=5)
        tasks.cancel_scope.cancel()


async def test_an_error_in_the_block_propagates_unwrapped() -> None:
    with pytest.raises(LookupError, match="of the test"):
        async with SimulatedCluster():
            raise LookupError("of the test")
    with pytest.raises(LookupError, match="of the test"):
        async with SimulatedCluster() as cluster, simulated_controller(cluster):
            raise LookupError("of the test")


async def test_an_error_of_an_actor_ends_the_block() -> None:
    def fail() -> None:
        raise LookupError("of an actor")

    async def block() -> None:
        async with SimulatedCluster() as cluster:
            cluster.event_queue.schedule(1, ("test",), fail)
            await anyio.sleep(2)

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert caught.group_contains(LookupError, match="of an actor")


async def test_calls_are_selected_by_client(cluster: SimulatedCluster) -> None:
    async with (
        simulated_controller(cluster, identity="one"),
        simulated_controller(cluster, identity="two"),
    ):
        assert {entry.request.client for entry in cluster.calls()} == {"one", "two"}
        assert {entry.request.client for entry in cluster.calls(client="two")} == {"two"}


POD = ObjectKey("default", "pod")


async def start_pod(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    body = {"metadata": {"name": POD.name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    cluster.server.create(PODS, POD.namespace, body)
    await cluster.settle()
    assert pod_status(cluster)["phase"] == "Running"


def pod_status(cluster: SimulatedCluster) -> dict[str, Any]:
    pod = cluster.server.document(PODS, POD.name, POD.namespace)
    assert pod is not None
    return dict(pod["status"])


async def test_a_deleted_pod_reaches_a_final_phase_before_it_is_removed(cluster: SimulatedCluster) -> None:
    await start_pod(cluster)
    cluster.server.delete(PODS, POD.name, POD.namespace)
    await cluster.settle()

    last = cluster.server.history(PODS)[-1]
    assert (last.type.value, last.record.document["status"]["phase"]) == ("DELETED", "Failed")


async def test_a_pod_fails_on_command_with_its_message(cluster: SimulatedCluster) -> None:
    await start_pod(cluster)
    cluster.kubelet.fail(POD, "disk full")

    status = pod_status(cluster)
    (container,) = status["containerStatuses"]
    assert status["phase"] == "Failed"
    assert container["state"]["terminated"]["message"] == "disk full"


async def test_a_held_pod_does_not_start_until_it_is_released(cluster: SimulatedCluster) -> None:
    cluster.kubelet.hold(POD, "ErrImagePull")
    cluster.fleet.add_nodes(1)
    body = {"metadata": {"name": POD.name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    cluster.server.create(PODS, POD.namespace, body)
    await cluster.settle()
    assert pod_status(cluster)["phase"] == "Pending"

    cluster.kubelet.release(POD)
    await cluster.settle()
    assert pod_status(cluster)["phase"] == "Running"


async def test_a_paused_actor_does_nothing_and_catches_up(cluster: SimulatedCluster) -> None:
    cluster.scheduler.pause()
    cluster.fleet.add_nodes(1)
    body = {"metadata": {"name": POD.name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    cluster.server.create(PODS, POD.namespace, body)
    await cluster.settle()
    assert "conditions" not in pod_status(cluster)

    cluster.scheduler.resume()
    await cluster.settle()
    assert pod_status(cluster)["phase"] == "Running"


async def test_garbage_collection_removes_the_pods_of_a_deleted_node(
    cluster: SimulatedCluster,
) -> None:
    await start_pod(cluster)
    cluster.fleet.remove_node("gpu-node-0")
    await cluster.settle(quiet_seconds=60)

    assert cluster.server.document(PODS, POD.name, POD.namespace) is None
    assert cluster.server.documents(NODES) == []


async def test_a_pod_deleted_during_binding_releases_its_device(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("short"))
        await cluster.wait_until(
            lambda: any(
                (claim.get("status") or {}).get("allocation") for claim in cluster.workloads.claims()
            ),
            "no claim is allocated",
        )
        cluster.server.delete(PODS, "orw-short", cluster.workloads.namespace)
        cluster.workloads.delete("short")
        await cluster.settle()

    assert cluster.server.documents(CLAIMS) == []


async def test_a_pod_counts_against_its_node_before_it_is_bound() -> None:
    async with SimulatedCluster(delays=Delays(binding_seconds=5.0)) as cluster:
        cluster.fleet.add_node("small", NodeShape(host_memory="3Gi"))
        for name in ("one", "two"):
            container = {"name": "c", "image": "i", "resources": {"requests": {"memory": "2Gi"}}}
            body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
            cluster.server.create(PODS, POD.namespace, body)
        await cluster.settle()
        bound = [pod for pod in cluster.server.documents(PODS) if pod["spec"].get("nodeName")]

    assert len(bound) == 1


async def test_a_returned_node_starts_its_pods(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    body = {"metadata": {"name": POD.name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    cluster.server.create(PODS, POD.namespace, body)
    await cluster.wait_until(lambda: pod_of(cluster)["spec"].get("nodeName"), "it is not bound")
    cluster.fleet.remove_node("gpu-node-0")
    await anyio.sleep(1)
    assert pod_of(cluster)["status"]["phase"] == "Pending"
    cluster.fleet.add_nodes(1)
    await cluster.settle()

    assert pod_of(cluster)["status"]["phase"] == "Running"


def pod_of(cluster: SimulatedCluster) -> dict[str, Any]:
    pod = cluster.server.document(PODS, POD.name, POD.namespace)
    assert pod is not None
    return pod


async def test_only_pods_get_a_grace_period(cluster: SimulatedCluster) -> None:
    server = cluster.server
    server.create(NAMESPACES, "", {"metadata": {"name": "team-a"}})
    server.create(LEDGERS, "team-a", {"metadata": {"name": "ledger-a"}, "spec": {"claimName": "claim-a"}})
    assert server.delete(LEDGERS, "ledger-a", "team-a", grace_seconds=30).gone
    ending = server.delete(NAMESPACES, "team-a", grace_seconds=30).record
    assert ending.metadata["deletionTimestamp"] == format_time(cluster.clock())


async def test_a_status_that_is_not_an_object_is_rejected(cluster: SimulatedCluster) -> None:
    cluster.server.create(NAMESPACES, "", {"metadata": {"name": "team-a"}})
    with pytest.raises(Refusal, match="status is not an object"):
        cluster.server.patch(NAMESPACES, "team-a", "", {"status": "odd"}, subresource="status")
