"""Crashes and concurrent controllers under load: the cluster always settles without violations.

A controller is killed at random times during a storm, or two run at once without leader election. No ledger
ever exceeds the limit. Once the cluster has settled, no worker has two seats or Pods, there are no orphans,
and every worker that fits is running.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from e2e.conftest import Start
from e2e.controlplane import Cluster, Fleet, NodeShape
from e2e.controlplane.waiting import pause_briefly
from e2e.harness.invariants import await_settled
from e2e.harness.ledger_watch import witnessed_ledgers
from e2e.harness.program import running_controller
from e2e.harness.workloads import WorkloadClient, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

LIMIT = 2
FLAGS = {"--max-seats-per-claim": str(LIMIT), "--retry-interval": "2s"}
CREATES, DELETES = 30, 10
NODES, GPUS = 4, 2


class Storm:
    """A series of created Workloads, with every third one followed by a deletion."""

    def __init__(self, openrl: WorkloadClient, rng: Random) -> None:
        self._openrl = openrl
        self._rng = rng
        self._alive: list[str] = []
        self._created = 0
        self._deleted = 0

    @property
    def over(self) -> bool:
        return self._created == CREATES

    def step(self) -> None:
        name = f"worker-{self._created:02}"
        self._openrl.submit(workload(name, shared=self._rng.randrange(5) > 0))
        self._alive.append(name)
        self._created += 1
        if self._created % 3 == 0 and self._deleted < DELETES:
            self._openrl.delete(self._alive.pop(self._rng.randrange(len(self._alive))))
            self._deleted += 1
        pause_briefly(self._rng.randrange(50) / 1000)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_controller_killed_at_random_in_a_storm_settles_without_violations(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, seed: int
) -> None:
    run_storm_with_crashes(cluster, openrl, tmp_path, seed)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_controller_killed_at_random_in_twenty_storms_settles_without_violations(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, seed: int
) -> None:
    run_storm_with_crashes(cluster, openrl, tmp_path, seed)


def run_storm_with_crashes(cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    # One GPU for each worker: random order decides only which workers share, not which run.
    cluster.create_nodes(Fleet(nodes=8, shape=NodeShape(gpus=4)))
    log = tmp_path / "controller.log"
    with witnessed_ledgers(cluster) as witness:
        storm = Storm(openrl, rng)
        while not storm.over:
            with running_controller(cluster, log, FLAGS) as controller:
                for _ in range(rng.randint(4, 10)):
                    if not storm.over:
                        storm.step()
                controller.kill()
        with running_controller(cluster, log, FLAGS):
            await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    assert witness.most_seats <= LIMIT


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [11, 12])
def test_two_controllers_without_election_settle_without_violations(
    cluster: Cluster, openrl: WorkloadClient, tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    cluster.create_nodes(Fleet(nodes=8, shape=NodeShape(gpus=4)))
    with witnessed_ledgers(cluster) as witness, ExitStack() as stack:
        for rival in range(2):
            stack.enter_context(running_controller(cluster, tmp_path / f"rival-{rival}.log", FLAGS))
        storm = Storm(openrl, rng)
        while not storm.over:
            storm.step()
        await_settled(openrl, limit=LIMIT, running=CREATES - DELETES, waiting=0)
    assert witness.most_seats <= LIMIT


@pytest.mark.timeout(300)
def test_an_overfull_fleet_settles_with_all_seats_booked(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    cluster.create_nodes(Fleet(nodes=NODES, shape=NodeShape(gpus=GPUS)))
    start(FLAGS)
    seats = NODES * GPUS * LIMIT
    with witnessed_ledgers(cluster) as witness:
        openrl.submit(*(workload(f"worker-{number:02}") for number in range(seats + 6)))
        await_settled(openrl, limit=LIMIT, running=seats, waiting=6)
        for name in sorted(openrl.in_phase("Running"))[:4]:
            openrl.delete(name)
        await_settled(openrl, limit=LIMIT, running=seats, waiting=2)
    assert witness.most_seats == LIMIT
