"""A cluster of an earlier controller is taken over: no seat is moved, no Pod restarted (contract §2.3).

The cases are those of `e2e.takeover`; claims are allocated, Pods scheduled and orphans collected by the real
components. The controller looks at everything again each second, so that rest is not for want of a cause.
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
from e2e.harness.faults import local
from e2e.harness.in_pod import LEASE, controller_in_a_pod
from e2e.harness.invariants import violations
from e2e.harness.program import running_controller
from e2e.harness.workloads import CLAIMS, LEDGERS, PODS, WORKLOADS, WorkloadClient, workload
from e2e.takeover.case import Case, Names, Object, cases, finish, lay_down, moved_claims, pods_to_come
from e2e.takeover.comparing import Picture, faults

pytest_plugins = ("e2e.controlplane.fixtures",)
pytestmark = pytest.mark.timeout(150)

COLLECTIONS = {"Workload": WORKLOADS, "ClaimLedger": LEDGERS, "ResourceClaim": CLAIMS, "Pod": PODS}
ARRANGE_SECONDS = 30
TAKEN_OVER_SECONDS = 45
SWEPT_SECONDS = 150
"""Two minutes of suspicion, and what comes after."""
REST_SECONDS = 4
RESTS_WITHIN_SECONDS = 30
WRITES = frozenset({"create", "update", "patch", "delete"})
TOLD = frozenset({"events", "leases"})
"""Resources that are written to without anything being decided."""
CASES = {case.name: case for case in cases()}
QUICK = {name: case for name, case in CASES.items() if not case.expectation.swept}


class RealStage:
    """The API server of a cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __repr__(self) -> str:
        return f"<RealStage {self._api!r}>"

    def create(self, item: Object) -> str:
        # Not strict: an earlier controller's fields are what this is about.
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
    """One case on a cluster, as it was when the earlier controller stopped."""

    def __init__(self, cluster: Cluster, case: Case) -> None:
        self._cluster = cluster
        self._case = case
        self._stage = RealStage(cluster.api)
        # Allocations are written by hand: that takes nodes and devices of these very names.
        api = local(cluster).api
        ensure_device_class(api)
        for node, devices in case.nodes.items():
            add_node(api, node, NodeShape(gpus=devices))
        self._names: Names = lay_down(case, self._stage)
        wait_until(
            lambda: not list(pods_to_come(case, self._stage)),
            f"{case}: Pods are not where the fixture has them",
            timeout_seconds=ARRANGE_SECONDS,
        )
        assert moved_claims(case, self._stage, self._names) == []
        finish(case, self._stage, self._names)
        self._await_garbage_collection()
        self._before = Picture.of(self._stage)

    def __repr__(self) -> str:
        return f"<LeftBehind {self._case}>"

    def await_taken_over(self) -> None:
        """Return once nothing is left to complain of."""
        found: list[str] = []
        excused = self._names.of(list(self._case.expectation.excused))
        openrl = WorkloadClient(self._cluster.api)

        def done() -> bool:
            found[:] = faults(self._case, self._names, self._before, Picture.of(self._stage))
            # A ledger above the limit stays above it.
            found.extend(text for text in violations(openrl, limit=0) if text not in excused)
            return not found

        seconds = SWEPT_SECONDS if self._case.expectation.swept else TAKEN_OVER_SECONDS
        try:
            wait_until(done, f"{self._case} is not taken over", timeout_seconds=seconds)
        except Exception as error:
            raise AssertionError("\n".join(found)) from error

    def _await_garbage_collection(self) -> None:
        """The claim of a ledger that was removed is asked to end by the garbage collector."""
        gone = {
            name.replace("ledger-", "claim-", 1).split("/")[1]
            for name in self._names.of([*self._case.removed])
        }

        def ending() -> bool:
            claims = {claim["metadata"]["name"]: claim for claim in self._stage.items("ResourceClaim")}
            return all("deletionTimestamp" in claims[name]["metadata"] for name in gone)

        wait_until(ending, "claims without a ledger are not collected", timeout_seconds=ARRANGE_SECONDS)


def flags(case: Case, **more: str) -> Mapping[str, str]:
    """A waiter's time has been running since the earlier controller's days: here it has no end."""
    named = {f"--{name.replace('_', '-')}": value for name, value in more.items()}
    return {
        "--retry-interval": "1s",
        "--placement-timeout": "0",
        "--max-seats-per-claim": str(case.limit),
        **named,
    }


def written(cluster: Cluster, since: int) -> dict[RequestKind, int]:
    """What controllers wrote after a mark, but for Events and the lease."""
    counts = cluster.audit.counts(since=since, user=CONTROLLER_USER)
    return {kind: n for kind, n in counts.items() if kind.verb in WRITES and kind.resource not in TOLD}


def await_rest(cluster: Cluster) -> None:
    """Return once nothing has been written for a while; a controller that goes on writing never rests."""
    last: list[object] = []

    def rests() -> bool:
        mark = cluster.audit.mark()
        pause_briefly(REST_SECONDS)
        last[:] = [written(cluster, mark)]
        return last == [{}]

    try:
        wait_until(rests, "the controller does not rest", timeout_seconds=RESTS_WITHIN_SECONDS)
    except Exception as error:
        raise AssertionError(f"still written: {last}") from error


@pytest.mark.parametrize("case", QUICK.values(), ids=str)
def test_what_is_seated_stays_and_then_all_is_quiet(cluster: Cluster, start: Start, case: Case) -> None:
    left = LeftBehind(cluster, case)
    mark = cluster.audit.mark()

    start(flags(case))

    left.await_taken_over()
    await_rest(cluster)
    left.await_taken_over()  # still
    if case.expectation.writes_nothing:
        assert written(cluster, mark) == {}


@pytest.mark.timeout(240)
def test_true_orphans_are_released_and_nothing_else(cluster: Cluster, start: Start) -> None:
    case = CASES["orphans"]
    left = LeftBehind(cluster, case)

    start(flags(case))

    left.await_taken_over()
    await_rest(cluster)


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.expectation.newcomer_on_its_own], ids=str
)
def test_nobody_joins_a_full_or_ending_claim(
    cluster: Cluster, openrl: WorkloadClient, start: Start, case: Case
) -> None:
    left = LeftBehind(cluster, case)
    start(flags(case))
    left.await_taken_over()
    before = openrl.seats()

    openrl.submit(workload("newcomer"))
    status = openrl.await_phase("newcomer", "Running")

    assert openrl.seats() == {**before, status["claimName"]: ["newcomer"]}


def test_other_limits_change_nothing_for_those_who_are_seated(cluster: Cluster, tmp_path: Path) -> None:
    case = CASES["placed"]
    left = LeftBehind(cluster, case)
    mark = cluster.audit.mark()
    for limit in ("1", "2", "256", "0"):
        log = tmp_path / f"limit-{limit}.log"
        with running_controller(cluster, log, flags(case, max_seats_per_claim=limit)) as controller:
            pause_briefly(1)
            assert controller.stop() == 0

    left.await_taken_over()
    assert written(cluster, mark) == {}


@pytest.mark.parametrize("name", ["placed", "lost-records", "mid-fallback"])
def test_a_standby_goes_on_where_a_leader_was_killed(cluster: Cluster, tmp_path: Path, name: str) -> None:
    """Two replicas as in Pods, with the shipped rights on the lease; the one that leads dies at once."""
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
        await_rest(cluster)
        assert await_leader(cluster, replicas) == pod
        assert other.stop() == 0


def await_leader(cluster: Cluster, pods: Iterable[str]) -> str:
    """The Pod that holds the lease, once it is one of these."""

    def leader() -> str | None:
        spec = (cluster.api.find(LEASE) or {}).get("spec", {})
        return next((pod for pod in pods if spec.get("holderIdentity", "").startswith(f"{pod}_")), None)

    return wait_until(leader, f"none of {sorted(pods)} leads", timeout_seconds=20)
