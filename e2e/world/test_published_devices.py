"""Devices as drivers publish them, on a real control plane: attributes, and devices for several claims."""

from __future__ import annotations

from typing import Any

from e2e.conftest import Start
from e2e.controlplane import Cluster, Fleet, NodeShape
from e2e.controlplane.fleet import RESOURCE_SLICES, slice_name
from e2e.harness.workloads import WorkloadClient, workload

pytest_plugins = ("e2e.controlplane.fixtures",)


def publish(cluster: Cluster, node: str, *devices: dict[str, Any]) -> None:
    """Replace the devices of a node, in the next generation of its pool."""
    path = f"{RESOURCE_SLICES}/{slice_name(node)}"
    current = cluster.api.get(path)
    current["spec"]["pool"]["generation"] += 1
    current["spec"]["devices"] = [{"capacity": {"memory": {"value": "80Gi"}}, **each} for each in devices]
    cluster.api.replace(path, current)


def requiring(name: str, **attributes: list[Any]) -> dict[str, Any]:
    document = workload(name)
    document["spec"]["accelerator"]["attributes"] = attributes
    return document


def devices_of(openrl: WorkloadClient, name: str) -> list[str]:
    claim_name = openrl.status(name)["claimName"]
    (claim,) = [each for each in openrl.claims() if each["metadata"]["name"] == claim_name]
    return [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]]


def test_workers_run_only_on_devices_with_their_attributes(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    """Devices without the attribute, or with a value of any other type, end no scheduling attempt."""
    (node,) = cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=1)))
    text = 'H100 "80GB" && \\x'
    values = {"plain": None, "version": {"version": "1.2.3"}, "number": {"int": 7}, "flag": {"bool": True}}
    publish(
        cluster,
        node,
        *(
            {"name": name, **({"attributes": {"productName": value}} if value else {})}
            for name, value in values.items()
        ),
        {"name": "text", "attributes": {"productName": {"string": text}}},
    )
    start({})

    wanted: dict[str, list[Any]] = {"text": [text, "other"], "number": [7], "flag": [True], "joined": [text]}
    for name, accepted in wanted.items():
        openrl.submit(requiring(name, productName=accepted))
        openrl.await_phase(name, "Running")
    openrl.submit(requiring("hopeless", productName=["1.2.3"]))
    openrl.await_pending("hopeless", "NoCapacity")

    found = {name: devices_of(openrl, name) for name in wanted}
    assert found == {"text": ["text"], "number": ["number"], "flag": ["flag"], "joined": ["text"]}


def test_no_claim_holds_a_device_that_allows_multiple_allocations(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    (node,) = cluster.create_nodes(Fleet(nodes=1, shape=NodeShape(gpus=1)))
    publish(cluster, node, {"name": "many", "allowMultipleAllocations": True}, {"name": "one"})
    start({})

    openrl.submit(workload("first", shared=False))
    openrl.await_phase("first", "Running")
    openrl.submit(workload("second", shared=False))
    openrl.await_pending("second", "WaitingForCapacity")

    assert devices_of(openrl, "first") == ["one"]
