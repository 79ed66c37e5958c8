"""Odd objects that the API server stored: each is reported, and none disturbs anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import EVENTS, PODS, WORKLOADS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import LIMIT_OF_ONE, controller_reference, plain_pod, row, submit

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def store_with(cluster: SimulatedCluster, change: Callable[[Document], object]) -> None:
    """Store a Workload that only an earlier schema admitted."""
    cluster.workloads.submit(workload("worker"))
    record = cluster.server.get(WORKLOADS, "worker", NAMESPACE)
    document = record.copy()
    change(document)
    cluster.server.store.put(WORKLOADS, document)


def template_with(**fields: object) -> Document:
    """Return a Workload whose template's Pod spec has these fields."""
    document = workload("worker")
    document["spec"]["template"]["spec"].update(fields)
    return document


@pytest.mark.parametrize("depth", [65, 150, 199, 300])
async def test_a_template_that_nests_too_deep_is_invalid(cluster: SimulatedCluster, depth: int) -> None:
    async with simulated_controller(cluster):
        cluster.fleet.add_nodes(1)
        cluster.workloads.submit(template_with(x=nested(depth)))
        await submit(cluster, "other")
        reason = "InvalidTemplate: template: nests more than 64 levels deep"
        assert row(cluster, "worker") == ("Failed", "False", "InvalidTemplate", reason)
        assert row(cluster, "other")[0] == "Running"


async def test_a_workload_that_nests_deep_beside_its_spec_runs(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster):
        cluster.fleet.add_nodes(1)
        document = workload("worker")
        document["metadata"]["managedFields"] = [{"manager": "x", "fieldsV1": {"f:a": nested(300)}}]
        cluster.workloads.submit(document)
        await cluster.settle()
        assert row(cluster, "worker")[0] == "Running"


async def test_a_template_that_cannot_be_read_is_invalid(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster):
        store_with(cluster, lambda document: document["spec"].update(template="x"))
        await cluster.settle()
        reason = "InvalidTemplate: template: Input should be a valid dictionary"
        assert row(cluster, "worker") == ("Failed", "False", "InvalidTemplate", reason)


@pytest.mark.parametrize("number", [2**63, 2**64, 2**65 + 1])
async def test_a_template_with_a_huge_number_is_sent_as_the_server_reads_it(
    cluster: SimulatedCluster, number: int
) -> None:
    """The API server stores integers beyond 64 bits as floats, and prints them without a point."""
    async with simulated_controller(cluster):
        cluster.fleet.add_nodes(1)
        spec = {"terminationGracePeriodSeconds": number}
        store_with(cluster, lambda document: document["spec"]["template"]["spec"].update(spec))
        await cluster.settle()
        assert cluster.workloads.status("worker").get("phase")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("exclusive", "perhaps", "exclusive: Input should be a valid boolean"),
        ("ownerID", 7, "ownerID: Input should be a valid string"),
    ],
)
async def test_a_spec_that_cannot_be_read_is_invalid(
    cluster: SimulatedCluster, field: str, value: object, words: str
) -> None:
    """Running clusters hold objects that earlier schemas admitted."""
    async with simulated_controller(cluster):
        cluster.fleet.add_nodes(1)
        store_with(cluster, lambda document: document["spec"].update({field: value}))
        await submit(cluster, "other")
        phase, status, code, reason = row(cluster, "worker")
        assert (phase, status, code) == ("Failed", "False", "InvalidSpec")
        assert words in reason
        assert row(cluster, "other")[0] == "Running"


async def test_a_workload_that_the_schema_no_longer_admits_has_an_event(cluster: SimulatedCluster) -> None:
    """The API server refuses even its finalizer and its status."""
    async with simulated_controller(cluster):
        store_with(cluster, lambda document: document["spec"].update(accelerator=None))
        await cluster.settle()
        (event,) = [e for e in cluster.server.documents(EVENTS) if e["regarding"]["name"] == "worker"]
        assert event["reason"] == "InvalidSpec"
        assert "spec.accelerator" in event["note"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_status_that_cannot_be_read_has_an_event(cluster: SimulatedCluster, restarts: bool) -> None:
    def make_odd() -> None:
        store_with(cluster, lambda document: document.update(status={"conditions": [{"type": 5}]}))

    if restarts:
        make_odd()
    async with simulated_controller(cluster):
        cluster.fleet.add_nodes(1)
        if not restarts:
            make_odd()
        await submit(cluster, "other")
        (event,) = [e for e in cluster.server.documents(EVENTS) if e["regarding"]["name"] == "worker"]
        assert (event["reason"], event["type"]) == ("InvalidSpec", "Warning")
        assert "is unreadable: status.conditions.0.type" in event["note"]
        assert row(cluster, "other")[0] == "Running"


async def test_an_unrepresentable_transition_time_does_not_end_a_wait(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster):
        await submit(cluster, "worker")

        def edit(document: Document) -> None:
            (placed,) = document["status"]["conditions"]
            placed["lastTransitionTime"] = "0000-01-01T00:00:00Z"

        cluster.server.edit(WORKLOADS, ObjectKey("openrl-system", "worker"), edit)
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Pending"
        await anyio.sleep(1000)
        assert row(cluster, "worker")[3].startswith("PlacementTimeout")


async def test_a_workload_is_deleted_whatever_other_namespaces_hold(cluster: SimulatedCluster) -> None:
    """A Pod counts as a worker's only in the Workload's own namespace, and no other Pod is touched."""
    async with simulated_controller(cluster, LIMIT_OF_ONE):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "worker", shared=False)
        found = cluster.workloads.get("worker")
        assert found is not None
        pod = plain_pod("stays", owner=controller_reference("worker", found["metadata"]["uid"]))
        pod["metadata"]["finalizers"] = ["tenant-a.example.com/stay"]
        cluster.server.create(PODS, "default", pod)
        await anyio.sleep(5)
        cluster.workloads.delete("worker")
        cluster.workloads.submit(workload("next", shared=False))
        await anyio.sleep(900)
        assert cluster.workloads.get("worker") is None
        assert row(cluster, "next")[0] == "Running"
        calls = [entry.request for entry in cluster.calls(client="controller")]
        assert not [call for call in calls if call.kind is PODS and call.namespace == "default"]
