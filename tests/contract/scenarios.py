"""Operations of a controller: the initial state, the trigger, and the expected result.

Tests run each operation with crashes, concurrent controllers and faults. None needs a retry interval.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import anyio

from controller.config.flags import Settings
from simulation.cluster.controller_process import SETTINGS
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    LIMIT_OF_TWO,
    claim_of,
    holdings,
    row,
    settings_with,
    submit,
    submit_stuck,
)

QUICK_SECONDS = 10.0
"""An operation that needs no timer of the controller is done by then."""


@dataclass(frozen=True)
class Operation:
    """One operation of a controller, from its initial state to its expected result."""

    name: str
    arrange: Callable[[SimulatedCluster], Coroutine[Any, Any, None]]
    act: Callable[[SimulatedCluster], Coroutine[Any, Any, None]]
    check: Callable[[SimulatedCluster], None]
    settings: Settings = SETTINGS
    lasts_seconds: float = 0.0
    """Time that the operation may take after `act`, including the controller's timers."""
    lasts_for_two_seconds: float = 0.0
    """The same for two controllers if longer: each has to learn the other's local state."""

    def __str__(self) -> str:
        return self.name


async def one_node(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)


async def submit_a_worker(cluster: SimulatedCluster) -> None:
    cluster.workloads.submit(workload("worker"))


def runs(name: str) -> Callable[[SimulatedCluster], None]:
    def check(cluster: SimulatedCluster) -> None:
        assert row(cluster, name) == ("Running", "True", "Placed", "")

    return check


async def a_shared_claim(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "creator")


def runs_beside_the_creator(cluster: SimulatedCluster) -> None:
    runs("worker")(cluster)
    assert claim_of(cluster, "worker") == claim_of(cluster, "creator")


async def a_full_claim_and_a_waiter(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "creator", "second", "worker")
    assert row(cluster, "worker")[:3] == ("Pending", "False", "Unschedulable")


async def free_a_seat(cluster: SimulatedCluster) -> None:
    cluster.workloads.delete("second")


async def two_seated(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "creator", "worker")


async def one_seated(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    await submit(cluster, "worker")


async def delete_the_worker(cluster: SimulatedCluster) -> None:
    cluster.workloads.delete("worker")


def only_the_creator_is_left(cluster: SimulatedCluster) -> None:
    assert list(cluster.workloads.statuses()) == ["creator"]
    assert cluster.workloads.seats() == {claim_of(cluster, "creator"): ["creator"]}
    assert len(cluster.workloads.pods()) == 1


def nothing_is_left(cluster: SimulatedCluster) -> None:
    assert cluster.workloads.is_empty()


async def a_stuck_pod(cluster: SimulatedCluster) -> None:
    """Create a seat on a claim whose node refuses the Pod, and a second node that accepts it."""
    await submit_stuck(cluster, spare=True)


async def wait_for_patience_to_end(_cluster: SimulatedCluster) -> None:
    await anyio.sleep(90)


def runs_on_the_spare(cluster: SimulatedCluster) -> None:
    runs("worker")(cluster)
    assert cluster.workloads.status("worker")["nodeName"] == "spare"
    runs("creator")(cluster)


async def a_worker_that_fits_nowhere(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    cluster.workloads.submit(workload("holder", shared=False))
    await cluster.settle()
    cluster.workloads.submit(workload("worker"))
    await cluster.settle()


def has_timed_out(cluster: SimulatedCluster) -> None:
    phase, _, reason, text = row(cluster, "worker")
    assert (phase, reason) == ("Failed", "Unschedulable")
    assert text.startswith("PlacementTimeout: waited 1m; last: ")
    assert cluster.workloads.pod("worker") is None
    assert list(cluster.workloads.seats().values()) == [["holder"]]


async def recreate_the_worker(cluster: SimulatedCluster) -> None:
    """Recreate the worker; its old Pod, ledger and claim may still be in a cache."""
    cluster.workloads.delete("worker")
    await cluster.wait_until(
        lambda: cluster.workloads.get("worker") is None, "still there", limit_seconds=1800
    )
    cluster.workloads.submit(workload("worker"))


async def succeed_the_worker(cluster: SimulatedCluster) -> None:
    cluster.kubelet.succeed(cluster.workloads.pod_key("worker"))


def has_succeeded_and_holds_nothing(cluster: SimulatedCluster) -> None:
    assert row(cluster, "worker") == ("Succeeded", "True", "Placed", "")
    # The finished Pod stays as a record.
    assert holdings(cluster) == ["Pod orw-worker"]


PATIENCE_SECONDS = 150.0

PLACEMENT = Operation("a dedicated placement", one_node, submit_a_worker, runs("worker"))
JOIN = Operation("a join", a_shared_claim, submit_a_worker, runs_beside_the_creator, LIMIT_OF_TWO)
MOVE = Operation(
    "a move to a seat", a_full_claim_and_a_waiter, free_a_seat, runs_beside_the_creator, LIMIT_OF_TWO
)
DELETION = Operation("a deletion", two_seated, delete_the_worker, only_the_creator_is_left)
LAST_DELETION = Operation("a deletion of the last worker", one_seated, delete_the_worker, nothing_is_left)
ABANDONMENT = Operation(
    "an abandonment",
    a_stuck_pod,
    wait_for_patience_to_end,
    runs_on_the_spare,
    settings_with(placement_timeout_seconds=0.0),
    lasts_seconds=PATIENCE_SECONDS,
    lasts_for_two_seconds=1800.0,
)
TIMEOUT = Operation(
    "a timeout",
    a_worker_that_fits_nowhere,
    wait_for_patience_to_end,
    has_timed_out,
    settings_with(placement_timeout_seconds=60.0),
    lasts_seconds=PATIENCE_SECONDS,
)
RECREATION = Operation("a recreation", one_seated, recreate_the_worker, runs("worker"))
ENDING = Operation("an ending", one_seated, succeed_the_worker, has_succeeded_and_holds_nothing)
OPERATIONS = (PLACEMENT, JOIN, MOVE, DELETION, LAST_DELETION, RECREATION, ENDING, ABANDONMENT, TIMEOUT)
