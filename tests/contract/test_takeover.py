"""Takeover from an earlier controller: no seat is moved and no Pod restarted (contract §2.3).

The cases and their expected results are those of `e2e.takeover`, which also run on a real control plane.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest

from controller.config.flags import Settings
from e2e.takeover.case import (
    Case,
    Names,
    Object,
    cases,
    create_objects,
    end_objects,
    misplaced_claims,
    pending_pods,
)
from e2e.takeover.comparing import Snapshot, differences, without_seats
from informers.api import ObjectKey
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.nodes import NodeShape
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import audited, ledger_key, settings_with, writes_of
from tests.contract.scenarios import QUICK_SECONDS
from tests.contract.test_crashes import AT_MOST_REQUESTS, SWEPT_SECONDS, CrashAt
from tests.virtualtime import run_virtual

pytestmark = pytest.mark.anyio

BY_KIND = {kind.kind: kind for kind in (WORKLOADS, LEDGERS, CLAIMS, PODS)}
RETRY_SECONDS = 10.0
REST_SECONDS = 600.0
"""Longer than any timer except the placement timeout."""
CASES = {case.name: case for case in cases()}


class SimulatedStage:
    """The server of a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._server = cluster.server
        self._namespace = cluster.workloads.namespace

    def __repr__(self) -> str:
        return f"<SimulatedStage {self._server!r}>"

    def create(self, item: Object) -> str:
        return self._server.create(BY_KIND[item["kind"]], self._namespace, item).uid

    def write_status(self, kind: str, name: str, status: Object) -> None:
        body = {"status": status}
        self._server.patch(BY_KIND[kind], name, self._namespace, body, subresource="status")

    def delete(self, kind: str, name: str) -> None:
        self._server.delete(BY_KIND[kind], name, self._namespace)

    def remove(self, kind: str, name: str) -> None:
        key = ObjectKey(self._namespace, name)
        self._server.edit(BY_KIND[kind], key, lambda item: item["metadata"].pop("finalizers", None))
        self._server.delete(BY_KIND[kind], name, self._namespace)

    def items(self, kind: str) -> list[Object]:
        return self._server.documents(BY_KIND[kind], self._namespace)


async def left_behind(cluster: SimulatedCluster, case: Case) -> tuple[SimulatedStage, Names, Snapshot]:
    """Return the cluster as the earlier controller left it."""
    cluster.fleet.ensure_device_class()
    for name, devices in case.nodes.items():
        cluster.fleet.add_node(name, NodeShape(gpus=devices))
    stage = SimulatedStage(cluster)
    names = create_objects(case, stage)
    await cluster.wait_until(
        lambda: not list(pending_pods(case, stage)), "Pods are not in their expected places"
    )
    assert misplaced_claims(case, stage, names) == []
    end_objects(case, stage, names)
    await cluster.settle()
    return stage, names, Snapshot.of(stage)


def settings_of(case: Case, **changes: object) -> Settings:
    """Return settings without a placement timeout, which would count from the earlier controller's times."""
    given = {"max_seats_per_claim": case.limit, "placement_timeout_seconds": 0.0}
    return settings_with(retry_interval_seconds=RETRY_SECONDS, **{**given, **changes})


def broken_invariants(cluster: SimulatedCluster, case: Case, names: Names) -> list[str]:
    ignored_violations = names.translate(list(case.expectation.ignored_violations))
    # A ledger above the limit stays above it.
    return [sentence for sentence in violations_at_rest(cluster) if sentence not in ignored_violations]


@pytest.mark.parametrize("case", CASES.values(), ids=str)
async def test_seats_are_kept_orphans_are_released_and_writes_stop(
    cluster: SimulatedCluster, case: Case
) -> None:
    stage, names, before = await left_behind(cluster, case)
    invariants, mark = InvariantChecker(cluster, limit=case.limit), len(cluster.audit)
    async with simulated_controller(cluster, settings_of(case)):
        if case.expectation.swept:
            await anyio.sleep(SWEPT_SECONDS)
        await cluster.settle()

        assert differences(case, names, before, Snapshot.of(stage)) == []
        assert broken_invariants(cluster, case, names) == []
        if case.expectation.writes_nothing:
            assert writes_of(cluster, mark) == []
        mark = len(cluster.audit)
        await anyio.sleep(REST_SECONDS)
        assert [str(entry) for entry in cluster.calls(since=mark) if audited(entry.request)] == []
    assert invariants.violations == []


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.expectation.newcomer_gets_own_claim], ids=str
)
async def test_no_worker_joins_a_full_or_terminating_claim(cluster: SimulatedCluster, case: Case) -> None:
    await left_behind(cluster, case)
    async with simulated_controller(cluster, settings_of(case)):
        await cluster.settle()
        cluster.workloads.submit(workload("newcomer"))
        await cluster.settle()

        assert cluster.workloads.status("newcomer")["phase"] == "Running"
        assert ["newcomer"] in cluster.workloads.seats().values()


@pytest.mark.parametrize("name", ["placed", "older-records"])
async def test_a_new_seat_leaves_the_other_seats_unchanged(cluster: SimulatedCluster, name: str) -> None:
    """Unknown fields, absent fields and quantities in bytes are written as they were read."""
    case = CASES[name]
    stage, _, before = await left_behind(cluster, case)
    async with simulated_controller(cluster, settings_of(case)):
        cluster.workloads.submit(workload("newcomer"))
        await cluster.settle()

    joined = cluster.workloads.status("newcomer")["claimName"]
    assert len(cluster.workloads.seats()[joined]) == 3
    assert Snapshot.of(stage).seats().items() >= before.seats().items()
    ledger = f"ClaimLedger/{ledger_key(joined).name}"
    assert without_seats(Snapshot.of(stage).objects[ledger]) == without_seats(before.objects[ledger])


@pytest.mark.parametrize("case", CASES.values(), ids=str)
async def test_two_controllers_take_over_like_one(cluster: SimulatedCluster, case: Case) -> None:
    """Leader election only saves work: here both controllers are active."""
    stage, names, before = await left_behind(cluster, case)
    invariants = InvariantChecker(cluster, limit=case.limit)
    async with AsyncExitStack() as stack:
        for name in ("one", "other"):
            await stack.enter_async_context(
                simulated_controller(cluster, settings_of(case), identity=name, synced=False)
            )
        if case.expectation.swept:
            await anyio.sleep(SWEPT_SECONDS)
        await cluster.settle()

        assert differences(case, names, before, Snapshot.of(stage)) == []
        assert broken_invariants(cluster, case, names) == []
    assert invariants.violations == []


async def taken_over_twice(case: Case, number: int) -> str:
    """During the takeover, a leader crashes after its n-th request is applied, and a standby takes over."""
    async with SimulatedCluster() as cluster:
        stage, names, before = await left_behind(cluster, case)
        invariants, settings = (
            InvariantChecker(cluster, limit=case.limit),
            settings_of(case, leader_elect=True),
        )
        async with simulated_controller(cluster, settings, identity="leader", synced=False) as leader:
            crash_at = CrashAt(leader.client, number, applied=True)
            leader.client.interceptor = crash_at
            async with simulated_controller(cluster, settings, identity="standby"):
                with anyio.move_on_after(SWEPT_SECONDS if case.expectation.swept else QUICK_SECONDS):
                    await leader.client.wait_crashed()
                    await leader.crash()
                # Lease renewals are writes, so such a cluster never settles.
                await anyio.sleep(2 * settings.lease_duration_seconds + SWEPT_SECONDS)
                where = f"{case}, the leader died at {crash_at.hit}"
                assert differences(case, names, before, Snapshot.of(stage)) == [], where
                assert broken_invariants(cluster, case, names) == [], where
        assert invariants.violations == [], where
        return crash_at.hit


@pytest.mark.parametrize("case", CASES.values(), ids=str)
def test_a_standby_continues_a_takeover_after_the_leader_crashed(case: Case) -> None:
    hits: list[str] = []
    while hit := run_virtual(taken_over_twice, case, len(hits) + 1):
        hits.append(hit)
        assert len(hits) < AT_MOST_REQUESTS
    assert bool(hits) is not case.expectation.writes_nothing


async def test_a_different_limit_changes_nothing_for_booked_workers(cluster: SimulatedCluster) -> None:
    case = CASES["placed"]
    stage, names, before = await left_behind(cluster, case)
    mark = len(cluster.audit)
    for limit in (1, 2, 3, 256, 0):
        async with simulated_controller(cluster, settings_of(case, max_seats_per_claim=limit)):
            await cluster.settle()

    assert differences(case, names, before, Snapshot.of(stage)) == []
    assert writes_of(cluster, mark) == []
