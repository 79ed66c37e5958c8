"""Contract §5.7: an allocated claim that keeps refusing the worker's Pod is abandoned."""

from __future__ import annotations

import anyio
import pytest

from informers.api import ObjectKey
from simulation.actors.base import condition
from simulation.apiserver.documents import Document, format_time
from simulation.apiserver.interception import Apply, Request
from simulation.apiserver.kinds import CLAIMS, PODS, WORKLOADS
from simulation.chaos.scripted import Faults, Meanwhile
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.clocks import BACK_AND_FORWARD, HALF_A_DAY_SECONDS
from tests.contract.harness import (
    assert_sound,
    claim_of,
    edit_seats,
    pod_uid,
    row,
    settings_with,
    submit,
    submit_stuck,
    writes_of,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
PATIENCE_SECONDS = settings_with(placement_timeout_seconds=0.0)


async def test_after_the_schedulers_back_off_the_worker_gives_up_its_seat_and_is_placed_elsewhere(
    cluster: SimulatedCluster,
) -> None:
    invariants = InvariantChecker(cluster)
    async with simulated_controller(cluster, PATIENCE_SECONDS):
        await submit_stuck(cluster)
        first = pod_uid(cluster, "worker")
        cluster.fleet.add_node("spare")
        await anyio.sleep(5)
        assert pod_uid(cluster, "worker") == first
        assert row(cluster, "worker")[0] == "Pending"
        mark = len(cluster.audit)
        await anyio.sleep(10)
        assert writes_of(cluster, mark)[:3] == ["delete pods", "patch workloads/status", "patch claimledgers"]
        await cluster.settle()
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")
    assert cluster.workloads.status("worker")["nodeName"] == "spare"
    assert row(cluster, "creator")[0] == "Running"
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


@BACK_AND_FORWARD
async def test_setting_the_wall_clock_does_not_change_the_patience(
    cluster: SimulatedCluster, jump_seconds: float
) -> None:
    """A seat that is kept longer would reserve host memory that kube-scheduler regards as free."""
    async with simulated_controller(cluster, PATIENCE_SECONDS):
        await submit_stuck(cluster)
        first = pod_uid(cluster, "worker")
        await anyio.sleep(2)
        cluster.clock.jump(jump_seconds)
        await anyio.sleep(5)
        assert pod_uid(cluster, "worker") == first
        await anyio.sleep(5)
        assert pod_uid(cluster, "worker") != first


async def test_a_refusal_with_a_timestamp_in_the_future_counts_from_its_observation(
    cluster: SimulatedCluster,
) -> None:
    async with simulated_controller(cluster, PATIENCE_SECONDS, identity="before"):
        await submit_stuck(cluster)
        first = pod_uid(cluster, "worker")
    cluster.clock.jump(-HALF_A_DAY_SECONDS)
    async with simulated_controller(cluster, PATIENCE_SECONDS):
        await anyio.sleep(8)
        assert pod_uid(cluster, "worker") == first
        await anyio.sleep(8)
        assert pod_uid(cluster, "worker") != first


@pytest.mark.parametrize(
    ("with_conditions", "seconds"), [(False, 120), (True, 600)], ids=["plain", "binding conditions"]
)
async def test_a_nominated_node_delays_the_worker_for_a_bounded_time(
    cluster: SimulatedCluster, with_conditions: bool, seconds: float
) -> None:
    """kube-scheduler nominates a node before it binds; a nomination without a result holds up no worker."""
    often = settings_with(placement_timeout_seconds=0.0, retry_interval_seconds=5.0)
    async with simulated_controller(cluster, often):
        await submit_stuck(cluster)
        if with_conditions:
            add_binding_conditions(cluster, claim_of(cluster, "creator"))
        first = pod_uid(cluster, "worker")
        cluster.scheduler.pause()

        def nominate(document: Document) -> None:
            document["status"]["nominatedNodeName"] = "gpu-node-0"

        cluster.server.edit(PODS, cluster.workloads.pod_key("worker"), nominate, subresource="status")
        await anyio.sleep(seconds - 5)
        assert pod_uid(cluster, "worker") == first
        await anyio.sleep(15)
        assert pod_uid(cluster, "worker") != first


def add_binding_conditions(cluster: SimulatedCluster, claim: str) -> None:
    """Edit an allocation, which the API server would not allow."""
    document = cluster.server.get(CLAIMS, claim, NAMESPACE).copy()
    for result in document["status"]["allocation"]["devices"]["results"]:
        result["bindingConditions"] = ["example.com/attached"]
    cluster.server.store.put(CLAIMS, document)


async def test_a_refusal_from_before_the_allocation_does_not_count(
    cluster: SimulatedCluster,
) -> None:
    """The Pod waited for minutes on its own claim, but the two minutes begin at the allocation."""
    async with simulated_controller(cluster, PATIENCE_SECONDS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "holder", "worker", shared=False)
        await anyio.sleep(600)
        first = pod_uid(cluster, "worker")
        cluster.scheduler.pause()
        cluster.workloads.delete("holder")
        await cluster.settle()
        # The claim gets the free device, but binding takes long, and the condition stays unchanged.
        allocate(cluster, claim_of(cluster, "worker"))
        await anyio.sleep(115)
        assert pod_uid(cluster, "worker") == first
        await anyio.sleep(10)
        assert pod_uid(cluster, "worker") != first


def allocate(cluster: SimulatedCluster, claim: str) -> None:
    """Write what kube-scheduler writes when it finds a device, before it binds."""

    def change(document: Document) -> None:
        result = {"request": "gpu/t1x80", "driver": "gpu.nvidia.com", "pool": "gpu-node-0", "device": "gpu-0"}
        field = {"key": "metadata.name", "operator": "In", "values": ["gpu-node-0"]}
        document["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            }
        }

    cluster.server.edit(CLAIMS, ObjectKey(NAMESPACE, claim), change, subresource="status")


async def test_a_pod_bound_meanwhile_keeps_its_claim(cluster: SimulatedCluster) -> None:
    """The delete conflicts: kube-scheduler has bound the Pod since the version that the delete names."""
    faults = Faults()
    async with simulated_controller(cluster, PATIENCE_SECONDS, interceptor=faults):
        await submit_stuck(cluster)
        first, claim = pod_uid(cluster, "worker"), claim_of(cluster, "worker")
        bound = faults.add(
            Meanwhile(
                lambda: cluster.server.bind(
                    cluster.workloads.pod_key("worker"),
                    first,
                    "gpu-node-0",
                    [{"type": "PodScheduled", "status": "True"}],
                )
            ),
            verb="delete",
            kind=PODS,
        )
        await anyio.sleep(130)
        await cluster.settle()
        assert bound.hits == 1
    assert (pod_uid(cluster, "worker"), claim_of(cluster, "worker")) == (first, claim)
    assert row(cluster, "worker")[0] == "Running"
    assert_sound(cluster, "worker")


async def test_only_seats_seen_before_the_status_write_are_released(
    cluster: SimulatedCluster,
) -> None:
    """Another process adopts the seat in between under its own assignment, and may be about to commit it."""

    async def adopted_meanwhile(_request: Request, apply: Apply) -> bytes:
        answer = apply()
        edit_seats(
            cluster,
            claim,
            lambda seats: [s | {"assignmentID": "theirs"} if s["workload"] == "worker" else s for s in seats],
        )
        await anyio.sleep(0.1)
        return answer

    faults = Faults()
    async with simulated_controller(cluster, PATIENCE_SECONDS, interceptor=faults):
        await submit_stuck(cluster)
        claim = claim_of(cluster, "creator")
        hit = faults.add(
            adopted_meanwhile,
            kind=WORKLOADS,
            subresource="status",
            when=lambda request: request.body["status"].get("claimName", "kept") is None,
        )
        await anyio.sleep(130)
        assert hit.hits == 1
    messages = [
        each["message"]
        for change in cluster.server.history(WORKLOADS)
        for each in (change.record.document.get("status") or {}).get("conditions") or ()
        if "message" in each
    ]
    assert any("assignment theirs" in message for message in messages), (
        "it is released later, after a fencing write"
    )


# What is not offered again.


async def test_a_refusal_does_not_repeat_while_other_capacity_is_free(
    cluster: SimulatedCluster,
) -> None:
    """The seat seems to fit, but kube-scheduler refuses the Pod: the worker gets the free device instead."""
    async with simulated_controller(cluster, PATIENCE_SECONDS):
        await refuse_without_visible_reason(cluster)
        creator = claim_of(cluster, "creator")
        cluster.fleet.add_node("spare", NodeShape(gpu_memory="81Gi"))
        await abandoned(cluster, creator)
        cluster.scheduler.resume()
        await cluster.settle(quiet_seconds=30)
    assert row(cluster, "worker") == ("Running", "True", "Placed", "")
    assert cluster.workloads.status("worker")["nodeName"] == "spare"


async def abandoned(cluster: SimulatedCluster, creator: str) -> None:
    """Wait until the worker left that claim for its own, and has its Pod."""
    await cluster.wait_until(
        lambda: claim_of(cluster, "worker") not in {"", creator} and bool(cluster.workloads.pod("worker")),
        "not abandoned",
        limit_seconds=300,
    )


async def refuse_without_visible_reason(cluster: SimulatedCluster) -> None:
    """Give `worker` a seat on the claim of `creator`, and refuse its Pod as kube-scheduler would."""
    cluster.fleet.add_nodes(1)
    await submit(cluster, "creator")
    cluster.scheduler.pause()
    await submit(cluster, "worker")
    refuse(cluster, "worker")


def refuse(cluster: SimulatedCluster, name: str) -> None:
    """Write the condition that kube-scheduler writes when it refuses a Pod."""

    def change(document: Document) -> None:
        document["status"]["conditions"] = condition(
            document["status"],
            "PodScheduled",
            "False",
            timestamp=format_time(cluster.clock()),
            reason="Unschedulable",
            message="0/1 nodes are available: by hand.",
        )

    cluster.server.edit(PODS, cluster.workloads.pod_key(name), change, subresource="status")


async def test_an_abandoned_claim_is_offered_again_after_a_doubling_backoff(
    cluster: SimulatedCluster,
) -> None:
    """Without other capacity the worker gets its own claim, and the seat after 1, 2, 4, ... 30 minutes."""
    often = settings_with(placement_timeout_seconds=0.0, retry_interval_seconds=10.0)
    async with simulated_controller(cluster, often):
        await refuse_without_visible_reason(cluster)
        creator = claim_of(cluster, "creator")
        waits: list[float] = []
        for _ in range(7):
            await abandoned(cluster, creator)
            left_seconds = anyio.current_time()
            refuse(cluster, "worker")
            await cluster.wait_until(
                lambda: claim_of(cluster, "worker") == creator, "not offered again", limit_seconds=7200
            )
            waits.append(anyio.current_time() - left_seconds)
            await cluster.wait_until(lambda: cluster.workloads.pod("worker") is not None, "no Pod")
            refuse(cluster, "worker")
    minutes = [round(wait / 60) for wait in waits]
    assert minutes == [1, 2, 4, 8, 16, 30, 30]


async def test_an_abandoned_claim_is_offered_again_when_its_node_changes(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, PATIENCE_SECONDS):
        await refuse_without_visible_reason(cluster)
        creator = claim_of(cluster, "creator")
        await abandoned(cluster, creator)
        refuse(cluster, "worker")
        await anyio.sleep(20)
        assert claim_of(cluster, "worker") != creator
        cluster.fleet.set_labels("gpu-node-0", {"openrl.io/trainer": "true"})
        await cluster.wait_until(lambda: claim_of(cluster, "worker") == creator, "no claim", limit_seconds=5)


async def test_the_other_claims_of_a_refusing_node_are_not_offered_either(cluster: SimulatedCluster) -> None:
    """The cause, such as a full disk, is the node's: trying its other devices would only cost attempts."""
    often = settings_with(placement_timeout_seconds=0.0, retry_interval_seconds=10.0)
    async with simulated_controller(cluster, often):
        cluster.fleet.add_nodes(1, NodeShape(gpus=2))
        await submit(cluster, "creator", shared=False)
        await submit(cluster, "shares")
        cluster.scheduler.pause()
        await submit(cluster, "worker")
        refuse(cluster, "worker")
        await abandoned(cluster, claim_of(cluster, "shares"))
        refuse(cluster, "worker")
        edit_exclusive(cluster, "creator")
        own = claim_of(cluster, "worker")
        await anyio.sleep(40)
        assert claim_of(cluster, "worker") == own
        await cluster.wait_until(lambda: claim_of(cluster, "worker") != own, "not offered again")


def edit_exclusive(cluster: SimulatedCluster, name: str) -> None:
    """Make the seat of an exclusive worker shareable, which frees seats on its claim."""
    edit_seats(cluster, claim_of(cluster, name), lambda seats: [s | {"exclusive": False} for s in seats])
