"""The `/metrics` page of the installed program while it places workers on a real control plane."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

from controller.metrics import definitions as m
from controller.metrics.exposition import FOREIGN_PREFIXES
from e2e.controlplane import Cluster
from e2e.controlplane.processes.layout import free_ports
from e2e.harness.program import running_controller
from e2e.harness.workloads import WorkloadClient, one_gpu_nodes, workload
from tests.controller.metrics.scraping import Scrape, family_name

pytest_plugins = ("e2e.controlplane.fixtures",)


def scrape(port: int) -> Scrape:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        return Scrape(response.read().decode())


def test_a_hand_off_and_its_latency_are_on_the_metrics_page(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path
) -> None:
    one_gpu_nodes(cluster, 1)
    (port,) = free_ports(1)
    flags = {"--max-seats-per-claim": "2", "--metrics-bind-address": f"127.0.0.1:{port}"}
    with running_controller(cluster, tmp_path / "controller.log", flags):
        openrl.submit(workload("a"), workload("b"))
        openrl.await_phases(["a", "b"], "Running")
        openrl.submit(workload("waits"))
        openrl.await_pending("waits", "WaitingForCapacity")
        waiting = {"WaitingForCapacity": 1}
        openrl.await_that(
            lambda: scrape(port).values(m.WAITING_WORKERS) == waiting,
            "the cache does not have the status yet",
        )
        before = scrape(port)
        openrl.delete("a")
        openrl.await_phase("waits", "Running")
        openrl.await_that(lambda: scrape(port).observations(m.WAIT)[0] == 3, "the wait has not ended")
        after = scrape(port)

    names = {family_name(family) for family in after.families}
    assert {name for name in names if not name.startswith(FOREIGN_PREFIXES)} == {
        d.name for d in m.DEFINITIONS
    }
    assert before.observations(m.HAND_OFF) == (0, 0)
    assert after.values(m.WAITING_WORKERS) == {}
    assert after.observations(m.HAND_OFF)[0] == 1
    assert after.values(m.SEATS) == {"shareable": 2}
    assert after.value(m.LEDGERS_AT_LIMIT) == 1
    assert after.value(m.LEADING, name="placement.openrl.io") == 1
    answers = {labels["code"] for labels in after.labels(m.REQUESTS)}
    assert {"200", "201"} <= answers
    assert not answers & {"401", "403", "422", "<error>"}, "no request was forbidden or malformed"
