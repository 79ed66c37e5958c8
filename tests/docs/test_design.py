"""The tables of the effects of a limit match the placement on a simulated cluster."""

from __future__ import annotations

import re

import pytest

from simulation.cluster.controller_process import SETTINGS, simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.docs.settings_table import ROOT
from tests.virtualtime import run_virtual

TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) and (\w+) \| (.+) \|$", TEXT, re.MULTILINE)

NODE = NodeShape(gpus=2, gpu_memory="80Gi", host_memory="512Gi")
HOST_REQUEST = {"memory": "64Gi", "cpu": "1"}
REASONS = {
    "host memory": "nodes of claims that fit lack host memory",
    "a seat": "claims that fit are full",
    "a GPU": "shared claims hold at most 1 workers",
}


def test_the_table_has_its_rows() -> None:
    assert [row[0] for row in ROWS] == ["0", "4", "2", "1"]


def test_the_readme_shows_the_same_numbers() -> None:
    shown = re.findall(r"^\| (\d+)(?: \(no sharing\))? \| (\d+) \| (\d+) \|$", README, re.MULTILINE)

    assert shown == [row[:3] for row in reversed(ROWS) if row[0] != "0"]
    assert all(row[2] == row[3] for row in ROWS if row[0] != "0"), "the README shows one number per GPU"


@pytest.mark.parametrize(("limit", "running", "first", "second", "awaited"), ROWS, ids=str)
def test_ten_workers_on_two_gpus(limit: str, running: str, first: str, second: str, awaited: str) -> None:
    async def place() -> tuple[int, list[int], str]:
        async with SimulatedCluster() as cluster:
            cluster.fleet.add_nodes(1, NODE)
            settings = SETTINGS.model_copy(update={"max_seats_per_claim": int(limit)})
            async with simulated_controller(cluster, settings):
                for number in range(10):
                    worker = workload(f"w-{number}", memory="60Gi")
                    worker["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = (
                        HOST_REQUEST
                    )
                    cluster.workloads.submit(worker)
                    await cluster.settle()
            statuses = cluster.workloads.statuses().values()
            allocated = {status["claimName"] for status in statuses if status["phase"] == "Running"}
            seats = [len(names) for claim, names in cluster.workloads.seats().items() if claim in allocated]
            return (
                len(cluster.workloads.in_phase("Running")),
                seats,
                cluster.workloads.status("w-9")["reason"],
            )

    seats = [int(cell) for cell in (first, second) if cell != "none"]
    count, seen, reason = run_virtual(place)

    assert (count, sorted(seen)) == (int(running), seats)
    assert REASONS[awaited] in reason
