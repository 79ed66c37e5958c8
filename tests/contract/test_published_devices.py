"""Devices as drivers publish them: each is used as by kube-scheduler, or the status states why not."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, DEVICE_CLASSES, SLICES
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import DRIVER, NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import claim_of, row, settings_with, submit

pytestmark = pytest.mark.anyio

PRODUCT = f"{DRIVER}/productName"
OFTEN = settings_with(retry_interval_seconds=10)
ONE_RETRY = 65
"""Seconds after which a waiting worker has been reconciled once more."""


def device(name: str, memory: str = "80Gi", capacity: str = "memory", **fields: Any) -> Document:
    return {"name": name, "capacity": {capacity: {"value": memory}}, **fields}


def with_product(name: str, product: str | int | bool, **fields: Any) -> Document:
    kind = {str: "string", bool: "bool", int: "int"}[type(product)]
    return device(name, attributes={"productName": {kind: product}}, **fields)


def publish(cluster: SimulatedCluster, node: str, *devices: Document, **spec: Any) -> None:
    """Add a node without devices, and publish these for it."""
    cluster.fleet.ensure_device_class()
    cluster.fleet.add_node(node, NodeShape(gpus=0))
    cluster.server.delete(SLICES, f"{node}-{DRIVER}")
    publish_slices(cluster, node, {"nodeName": node, "devices": list(devices), **spec})


def publish_slices(cluster: SimulatedCluster, pool: str, *specs: Document) -> None:
    for number, spec in enumerate(specs):
        name = {"name": pool, "generation": 1, "resourceSliceCount": len(specs)}
        body = {"metadata": {"name": f"{pool}-{number}"}, "spec": {"driver": DRIVER, "pool": name, **spec}}
        cluster.server.create(SLICES, "", body)


def requiring(name: str, attributes: object, **spec: Any) -> Document:
    document = workload(name, **spec)
    document["spec"]["accelerator"]["attributes"] = attributes
    return document


def devices_of(cluster: SimulatedCluster) -> list[str]:
    return sorted(
        result["device"]
        for claim in cluster.workloads.claims()
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    )


def device_of(cluster: SimulatedCluster, name: str) -> str:
    claim = cluster.workloads.status(name)["claimName"]
    (found,) = [each for each in cluster.workloads.claims() if each["metadata"]["name"] == claim]
    return str(found["status"]["allocation"]["devices"]["results"][0]["device"])


# Attributes


@pytest.mark.parametrize("key", ["productName", PRODUCT])
@pytest.mark.parametrize("value", ['H100 "80GB" && \\x', 7, True])
async def test_a_worker_gets_only_a_device_with_the_attribute(
    cluster: SimulatedCluster, key: str, value: str | int
) -> None:
    """Devices without the attribute, or with a value of another type, cause no error."""
    others: list[str | int] = ["other", 1, False]
    publish(
        cluster,
        "node",
        device("plain"),
        *(with_product(f"other-{index}", other) for index, other in enumerate(others)),
        with_product("wanted", value),
    )
    async with simulated_controller(cluster):
        cluster.workloads.submit(requiring("worker", {key: ["unknown", value]}))
        await cluster.settle()
        assert row(cluster, "worker")[0] == "Running"
        assert devices_of(cluster) == ["wanted"]


async def test_a_worker_joins_only_a_device_with_the_attribute(cluster: SimulatedCluster) -> None:
    publish(cluster, "a", with_product("small", "A100"))
    publish(cluster, "b", with_product("large", "H100", memory="141Gi"))
    async with simulated_controller(cluster):
        for name, product in (("first", "A100"), ("second", "H100"), ("third", "H100"), ("fourth", "A100")):
            cluster.workloads.submit(requiring(name, {"productName": [product]}))
            await cluster.settle()
        cluster.workloads.submit(workload("any"))
        await cluster.settle()
        found = {name: device_of(cluster, name) for name in ("first", "second", "third", "fourth", "any")}
        assert found == {
            "first": "small",
            "second": "large",
            "third": "large",
            "fourth": "small",
            "any": "small",
        }


async def test_no_capacity_names_the_attribute(cluster: SimulatedCluster) -> None:
    publish(cluster, "node", with_product("gpu-0", "A100"))
    async with simulated_controller(cluster):
        cluster.workloads.submit(requiring("worker", {"productName": ["H100", "H200"]}))
        await cluster.settle()
        phase, _, _, reason = row(cluster, "worker")
        assert phase == "Pending"
        assert reason.startswith(f"NoCapacity: no device for the role trainer has {PRODUCT} H100 or H200")


async def test_a_device_that_gets_the_attribute_later_is_used(cluster: SimulatedCluster) -> None:
    publish(cluster, "node", device("gpu-0"))
    async with simulated_controller(cluster):
        cluster.workloads.submit(requiring("worker", {"productName": ["H100"]}))
        await cluster.settle()
        publish(cluster, "later", with_product("gpu-1", "H100"))
        await anyio.sleep(ONE_RETRY)
        assert devices_of(cluster) == ["gpu-1"]


async def test_several_devices_all_have_the_attribute(cluster: SimulatedCluster) -> None:
    publish(cluster, "a", with_product("a0", "H100"), device("a1"))
    publish(cluster, "b", with_product("b0", "H100"), device("b1"), with_product("b2", "H100"))
    async with simulated_controller(cluster):
        cluster.workloads.submit(requiring("worker", {"productName": ["H100"]}, devices=2))
        await cluster.settle()
        assert devices_of(cluster) == ["b0", "b2"]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({'x"] == 1 || true || ["y': ["z"]}, "is not an attribute name"),
        ({"a.b/c/d": ["z"]}, "is not an attribute name"),
        ({"x" * 33: ["z"]}, "is not an attribute name"),
        ({"UPPER.example.com/x": ["z"]}, "is not an attribute name"),
        ({"productName": [1.5]}, "is not a list of texts, whole numbers and booleans"),
        ({"productName": [["H100"]]}, "is not a list of texts, whole numbers and booleans"),
        ({"productName": ["x\n"]}, "printable"),
        ({"productName": ["x" * 65]}, "at most 64"),
        ({"productName": [2**63]}, "productName"),
        ({"productName": ["x"], PRODUCT: ["x"]}, "is set twice"),
    ],
)
async def test_invalid_attributes_fail_with_the_field(
    cluster: SimulatedCluster, attributes: object, words: str
) -> None:
    async with simulated_controller(cluster):
        cluster.workloads.submit(requiring("worker", attributes))
        await cluster.settle()
        phase, _, _, reason = row(cluster, "worker")
        assert phase == "Failed"
        assert reason.startswith("InvalidSpec: accelerator.attributes")
        assert words in reason


# Capacity


async def test_a_capacity_counts_under_the_name_with_the_domain(cluster: SimulatedCluster) -> None:
    publish(cluster, "node", device("gpu-0", capacity=f"{DRIVER}/memory"))
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker"), workload("second"))
        await cluster.settle()
        assert [row(cluster, name)[0] for name in ("worker", "second")] == ["Running", "Running"]


# Multiple allocations


async def test_a_device_with_multiple_allocations_is_left_out_with_a_word(cluster: SimulatedCluster) -> None:
    publish(cluster, "node", device("gpu-0", allowMultipleAllocations=True))
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker", shared=False))
        await cluster.settle()
        assert row(cluster, "worker")[3] == (
            "NoCapacity: no enabled node has devices; devices with allowMultipleAllocations are not supported"
        )


async def test_an_exclusive_worker_never_gets_a_device_with_multiple_allocations(
    cluster: SimulatedCluster,
) -> None:
    publish(cluster, "node", device("many", allowMultipleAllocations=True), device("one"))
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("a", shared=False), workload("b", shared=False))
        await cluster.settle()
        assert devices_of(cluster) == ["one"]


async def test_claims_name_multiple_allocations_only_where_the_fleet_has_them(
    cluster: SimulatedCluster,
) -> None:
    """Without the feature the API server refuses such a claim."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker"))
        await cluster.settle()
        assert "allowMultipleAllocations" not in str(cluster.workloads.claims())


async def test_a_pending_claim_is_made_again_when_the_first_shared_device_appears(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, settings_with(retry_interval_seconds=5.0)):
        await submit(cluster, "holder", "waiter", shared=False)
        assert row(cluster, "waiter")[0] == "Pending"
        publish(cluster, "shared-node", device("gpu-0", allowMultipleAllocations=True))
        await anyio.sleep(30)
        assert row(cluster, "waiter")[0] == "Pending", "it does not get the shared device"
        pending = cluster.server.get(CLAIMS, claim_of(cluster, "waiter"), "openrl-system")
        assert "!device.allowMultipleAllocations" in str(pending.document)


# Node selection


@pytest.mark.parametrize(
    "selection",
    [
        {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]}},
        {"allNodes": True},
        {"perDeviceNodeSelection": True},
    ],
)
async def test_slices_that_name_no_node_are_left_out_with_a_word(
    cluster: SimulatedCluster, selection: Document
) -> None:
    cluster.fleet.ensure_device_class()
    cluster.fleet.add_node("node", NodeShape(gpus=0))
    publish_slices(cluster, "fabric", {**selection, "devices": [device("gpu-0")]})
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker"))
        await cluster.settle()
        (form,) = selection
        assert row(cluster, "worker")[3].startswith("NoCapacity: ")
        assert row(cluster, "worker")[3].endswith(f"devices by {form} are not supported")


# The selectors of the DeviceClass


def select_by(cluster: SimulatedCluster, least: str) -> None:
    """Create a DeviceClass that selects devices of this size and more."""
    capacity = f'device.capacity["{DRIVER}"]'
    expression = f'"memory" in {capacity} && {capacity}.memory.compareTo(quantity("{least}")) >= 0'
    body = {"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    cluster.server.create(DEVICE_CLASSES, "", body)


@pytest.mark.parametrize("devices", [0, 2])
async def test_devices_that_the_class_does_not_select_are_no_capacity(
    cluster: SimulatedCluster, devices: int
) -> None:
    select_by(cluster, "40Gi")
    cluster.fleet.add_node("sliced", NodeShape(gpus=7, gpu_memory="9728Mi"))
    async with simulated_controller(cluster, OFTEN):
        cluster.workloads.submit(workload("worker", memory="8Gi", devices=devices))
        await anyio.sleep(ONE_RETRY)
        phase, _, _, reason = row(cluster, "worker")
        assert phase == "Pending"
        assert reason.startswith("NoCapacity: ")
        assert f"kube-scheduler refuses free devices of t{devices or 1}x10: device class {DRIVER}" in reason


async def test_a_refused_device_beside_devices_that_are_held_is_named(cluster: SimulatedCluster) -> None:
    """The held device may become free, so waiting can help."""
    select_by(cluster, "40Gi")
    publish(cluster, "node", device("slice", "10Gi"), device("whole"))
    async with simulated_controller(cluster, OFTEN):
        cluster.workloads.submit(workload("holder", shared=False, memory="60Gi"))
        await cluster.settle()
        cluster.workloads.submit(workload("worker", shared=False, memory="8Gi"))
        await anyio.sleep(ONE_RETRY)
        reason = row(cluster, "worker")[3]
        assert reason.startswith("WaitingForCapacity: ")
        assert "other workers hold devices that fit" in reason
        assert "kube-scheduler refuses free devices of t1x10" in reason


async def test_a_device_that_is_refused_for_other_reasons_does_not_name_the_class(
    cluster: SimulatedCluster,
) -> None:
    cluster.fleet.add_nodes(1, NodeShape(host_memory="512Mi"))
    async with simulated_controller(cluster, OFTEN):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(ONE_RETRY)
        assert "device class" not in row(cluster, "worker")[3]


# Parts of one device


def parts(cluster: SimulatedCluster) -> None:
    """One GPU of 80Gi, published as a whole (twice) and in halves, which all use the same counters."""

    def part(name: str, memory: str) -> Document:
        draw = {"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}
        return device(name, memory, consumesCounters=[draw])

    cluster.fleet.ensure_device_class()
    cluster.fleet.add_node("node", NodeShape(gpus=0))
    cluster.server.delete(SLICES, f"node-{DRIVER}")
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    devices = [part("whole", "80Gi"), part("upper", "80Gi"), part("half-0", "40Gi"), part("half-1", "40Gi")]
    publish_slices(
        cluster,
        "node",
        {"nodeName": "node", "sharedCounters": counters},
        {"nodeName": "node", "devices": devices},
    )


async def test_what_one_device_can_never_be_is_no_capacity(cluster: SimulatedCluster) -> None:
    parts(cluster)
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker", memory="60Gi", devices=2))
        await cluster.settle()
        assert row(cluster, "worker")[3] == (
            "NoCapacity: no node for the role trainer has 2 devices of one size that hold 60Gi, "
            "the largest has 1 of 80Gi"
        )


async def test_two_parts_of_one_device_can_be_had(cluster: SimulatedCluster) -> None:
    parts(cluster)
    async with simulated_controller(cluster):
        cluster.workloads.submit(workload("worker", memory="30Gi", devices=2))
        await cluster.settle()
        assert devices_of(cluster) == ["half-0", "half-1"]
