"""A cluster of an earlier controller is taken over: no seat moves, no Pod restarts (contract §2.3).

The cases are those of `e2e.takeover`. The real components allocate claims, schedule Pods and collect garbage.
The retry interval is one second, so that a quiet period proves that there is nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, Api, Cluster, NodeShape, RequestKind, wait_until
from e2e.controlplane.fleet import add_node, ensure_device_class
from e2e.controlplane.waiting import pause_briefly
from e2e.harness.faults import require_local
from e2e.harness.in_pod import LEASE, controller_in_a_pod
from e2e.harness.invariants import violations
from e2e.harness.program import running_controller
from e2e.harness.workloads import CLAIMS, LEDGERS, PODS, WORKLOADS, WorkloadClient, workload
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
from e2e.takeover.comparing import Snapshot, differences

pytest_plugins = ("e2e.controlplane.fixtures",)
pytestmark = pytest.mark.timeout(150)

COLLECTIONS = {"Workload": WORKLOADS, "ClaimLedger": LEDGERS, "ResourceClaim": CLAIMS, "Pod": PODS}
ARRANGE_SECONDS = 30
TAKEN_OVER_SECONDS = 45
SWEPT_SECONDS = 150
"""The two minutes for which the sweep suspects an orphan, and time for the release."""
QUIET_SECONDS = 4
QUIET_WITHIN_SECONDS = 30
WRITES = frozenset({"create", "update", "patch", "delete"})
NOT_DECISIONS = frozenset({"events", "leases"})
"""Resources that are also written without a placement decision."""
CASES = {case.name: case for case in cases()}
QUICK = {name: case for name, case in CASES.items() if not case.expectation.swept}


class RealStage:
    """The API server of a cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __repr__(self) -> str:
        return f"<RealStage {self._api!r}>"

    def create(self, item: Object) -> str:
        # Not strict, because fixtures contain fields of earlier controllers.
        created = self._api.request("POST", COLLECTIONS[item["kind"]], item)
        return str(created["metadata"]["uid"])

    def write_status(self, kind: str, name: str, status: Object) -> None:
        self._api.patch(f"{COLLECTIONS[kind]}/{name}/status", {"status": status})

    def delete(self, kind: str, name: str) -> None:
        self._api.delete(f"{COLLECTIONS[kind]}/{name}")

    def remove(self, kind: str, name: str) -> None:
        self._api.patch(f"{COLLECTIONS[kind]}/{name}", {"metadata": {"finalizers": None}})
        self._api.delete(f"{COLLECTIONS[kind]}/{name}")

    def items(self, kind: str) -> list[Object]:
        return self._api.items(COLLECTIONS[kind])


class LeftBehind:
    """One case on a cluster, in the state in which the earlier controller stopped."""

    def __init__(self, cluster: Cluster, case: Case) -> None:
        self._cluster = cluster
        self._case = case
        self._stage = RealStage(cluster.api)
        # The fixture contains allocations, which need nodes and devices with exactly these names.
        api = require_local(cluster).api
        ensure_device_class(api)
        for node, devices in case.nodes.items():
            add_node(api, node, NodeShape(gpus=devices))
        self._names: Names = create_objects(case, self._stage)
        wait_until(
            lambda: not list(pending_pods(case, self._stage)),
            f"{case}: Pods are not where the fixture has them",
            timeout_seconds=ARRANGE_SECONDS,
        )
        assert misplaced_claims(case, self._stage, self._names) == []
        end_objects(case, self._stage, self._names)
        self._await_garbage_collection()
        self._before = Snapshot.of(self._stage)

    def __repr__(self) -> str:
        return f"<LeftBehind {self._case}>"

    def await_taken_over(self) -> None:
        """Wait until there are no differences and no violations."""
        found: list[str] = []
        ignored = self._names.translate(list(self._case.expectation.ignored_violations))
        openrl = WorkloadClient(self._cluster.api)

        def done() -> bool:
            found[:] = differences(self._case, self._names, self._before, Snapshot.of(self._stage))
            # The limit is not checked, because a ledger above it stays above it.
            found.extend(text for text in violations(openrl, limit=0) if text not in ignored)
            return not found

        seconds = SWEPT_SECONDS if self._case.expectation.swept else TAKEN_OVER_SECONDS
        try:
            wait_until(done, f"{self._case} is not taken over", timeout_seconds=seconds)
        except Exception as error:
            raise AssertionError("\n".join(found)) from error

    def _await_garbage_collection(self) -> None:
        """Wait until the garbage collector has deleted the claims of removed ledgers."""
        gone = {
            name.replace("ledger-", "claim-", 1).split("/")[1]
            for name in self._names.translate([*self._case.removed])
        }

        def ending() -> bool:
            claims = {claim["metadata"]["name"]: claim for claim in self._stage.items("ResourceClaim")}
            return all("deletionTimestamp" in claims[name]["metadata"] for name in gone)

        wait_until(ending, "claims without a ledger are not collected", timeout_seconds=ARRANGE_SECONDS)


def flags(case: Case, **more: str) -> Mapping[str, str]:
    """Return the flags of a case, without a placement timeout: workers may have waited for long already."""
    named = {f"--{name.replace('_', '-')}": value for name, value in more.items()}
    return {
        "--retry-interval": "1s",
        "--placement-timeout": "0",
        "--max-seats-per-claim": str(case.limit),
        **named,
    }


def count_writes(cluster: Cluster, since: int) -> dict[RequestKind, int]:
    """Count the writes of controllers after a mark, except of Events and the lease."""
    counts = cluster.audit.counts(since=since, user=CONTROLLER_USER)
    return {
        kind: n for kind, n in counts.items() if kind.verb in WRITES and kind.resource not in NOT_DECISIONS
    }


def await_quiet(cluster: Cluster) -> None:
    """Wait until the controller has written nothing for a while."""
    last: list[object] = []

    def is_quiet() -> bool:
        mark = cluster.audit.mark()
        pause_briefly(QUIET_SECONDS)
        last[:] = [count_writes(cluster, mark)]
        return last == [{}]

    try:
        wait_until(is_quiet, "the controller does not become quiet", timeout_seconds=QUIET_WITHIN_SECONDS)
    except Exception as error:
        raise AssertionError(f"still written: {last}") from error


@pytest.mark.parametrize("case", QUICK.values(), ids=str)
def test_seats_are_kept_and_the_controller_becomes_quiet(cluster: Cluster, start: Start, case: Case) -> None:
    left = LeftBehind(cluster, case)
    mark = cluster.audit.mark()

    start(flags(case))

    left.await_taken_over()
    await_quiet(cluster)
    left.await_taken_over()  # unchanged after the quiet period
    if case.expectation.writes_nothing:
        assert count_writes(cluster, mark) == {}


@pytest.mark.timeout(240)
def test_only_real_orphans_are_released(cluster: Cluster, start: Start) -> None:
    case = CASES["orphans"]
    left = LeftBehind(cluster, case)

    start(flags(case))

    left.await_taken_over()
    await_quiet(cluster)


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.expectation.newcomer_gets_own_claim], ids=str
)
def test_no_worker_joins_a_full_or_terminating_claim(
    cluster: Cluster, openrl: WorkloadClient, start: Start, case: Case
) -> None:
    left = LeftBehind(cluster, case)
    start(flags(case))
    left.await_taken_over()
    before = openrl.seats()

    openrl.submit(workload("newcomer"))
    status = openrl.await_phase("newcomer", "Running")

    assert openrl.seats() == {**before, status["claimName"]: ["newcomer"]}


def test_another_limit_changes_no_existing_seat(cluster: Cluster, tmp_path: Path) -> None:
    case = CASES["placed"]
    left = LeftBehind(cluster, case)
    mark = cluster.audit.mark()
    for limit in ("1", "2", "256", "0"):
        log = tmp_path / f"limit-{limit}.log"
        with running_controller(cluster, log, flags(case, max_seats_per_claim=limit)) as controller:
            pause_briefly(1)
            assert controller.stop() == 0

    left.await_taken_over()
    assert count_writes(cluster, mark) == {}


@pytest.mark.parametrize("name", ["placed", "lost-records", "mid-fallback"])
def test_a_standby_continues_after_the_leader_is_killed(cluster: Cluster, tmp_path: Path, name: str) -> None:
    """Two replicas run as in Pods, with the shipped permissions on the lease; the leader is killed."""
    case = CASES[name]
    left = LeftBehind(cluster, case)
    cluster.api.delete(LEASE)
    with ExitStack() as stack:
        replicas = {
            pod: stack.enter_context(controller_in_a_pod(cluster, tmp_path, pod, flags(case)))
            for pod in ("replica-a", "replica-b")
        }
        replicas.pop(await_leader(cluster, replicas)).kill()
        ((pod, other),) = replicas.items()
        other.await_logged("Started reconciling")

        left.await_taken_over()
        await_quiet(cluster)
        assert await_leader(cluster, replicas) == pod
        assert other.stop() == 0


def await_leader(cluster: Cluster, pods: Iterable[str]) -> str:
    """Wait until one of these Pods holds the lease, and return its name."""

    def leader() -> str | None:
        spec = (cluster.api.find(LEASE) or {}).get("spec", {})
        return next((pod for pod in pods if spec.get("holderIdentity", "").startswith(f"{pod}_")), None)

    return wait_until(leader, f"none of {sorted(pods)} leads", timeout_seconds=20)
