"""Device pools that do not count are logged once for each generation and cause."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from controller.api.dra import SLICES, ResourceSlice
from tests.controller.build import DRIVER, Parts, device, metadata, node, slice_of

SHARED_POOL = {"name": "gpus", "generation": 1, "resourceSliceCount": 1}


def part(number: int, of: int, device_name: str, memory: str, generation: int = 1) -> ResourceSlice:
    document = {
        "metadata": metadata(f"part-{number}", ""),
        "spec": {
            "driver": DRIVER,
            "nodeName": "gpu-node-0",
            "pool": {"name": "gpu-node-0", "generation": generation, "resourceSliceCount": of},
            "devices": [device(device_name, memory)],
        },
    }
    return SLICES.decode(json.dumps(document).encode())


@pytest.fixture
def parts() -> Parts:
    parts = Parts()
    parts.put(node("gpu-node-0"))
    return parts


def test_a_pool_that_lists_a_device_twice_is_logged_once(parts: Parts) -> None:
    with capture_logs() as logs:
        parts.put(part(1, 2, "gpu-0", "40Gi"))
        parts.put(part(2, 2, "gpu-0", "80Gi"))
        parts.put(part(2, 2, "gpu-0", "81Gi"))
        parts.host("another")

    (line,) = logs
    assert line["event"] == "Ignored device pool"
    assert (line["pool"], line["nodes"], line["generation"]) == ("gpu-node-0", ("gpu-node-0",), 1)
    assert line["cause"] == "device gpu-0 is listed twice"


def test_a_pool_whose_slices_arrive_one_by_one_is_not_logged(parts: Parts) -> None:
    with capture_logs() as logs:
        parts.put(part(1, 2, "gpu-0", "80Gi"), part(2, 2, "gpu-1", "80Gi"))

    assert logs == []


def test_a_pool_that_stays_incomplete_is_logged_once(parts: Parts) -> None:
    with capture_logs() as logs:
        parts.put(part(1, 2, "gpu-0", "80Gi"))
        parts.host("another")
        parts.host("a-third")

    (line,) = logs
    assert line["cause"] == "slices are missing"
    assert (line["slices_present"], line["slices_expected"]) == (1, 2)


def test_a_new_generation_with_the_same_fault_is_logged_again(parts: Parts) -> None:
    with capture_logs() as logs:
        parts.put(part(1, 2, "gpu-0", "40Gi"), part(2, 2, "gpu-0", "80Gi"))
        parts.put(part(1, 2, "gpu-0", "40Gi", 2), part(2, 2, "gpu-0", "80Gi", 2))

    assert [line["generation"] for line in logs if "twice" in line["cause"]] == [1, 2]


def test_pools_of_one_name_on_two_nodes_are_logged_once_although_no_worker_may_use_them() -> None:
    parts = Parts()
    with capture_logs() as logs:
        for number in range(2):
            parts.put(slice_of(f"disabled-{number}", pool=SHARED_POOL))
        parts.host("another")

    (line,) = logs
    assert (line["pool"], line["nodes"]) == ("gpus", ("disabled-0", "disabled-1"))
    assert line["cause"] == "several nodes have a pool of this name"
