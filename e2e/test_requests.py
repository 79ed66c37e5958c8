"""The requests that placement needs, counted in the audit log of the API server."""

from __future__ import annotations

from collections import Counter

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, Cluster, wait_until
from e2e.harness.workloads import WorkloadClient, one_gpu_nodes, workload

pytest_plugins = ("e2e.controlplane.fixtures",)

LIMIT_OF_TWO = {"--max-seats-per-claim": "2"}


def test_a_dedicated_placement_needs_six_writes_a_join_five_and_neither_reads(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    start({})

    for name, writes in (("creator", 6), ("joiner", 5)):
        mark = cluster.audit.mark()
        openrl.submit(workload(name))
        openrl.await_phase(name, "Running")
        # The last line of the log appears shortly after the response.
        await_logged(cluster, mark, writes)
        verbs = requests(cluster, mark)
        assert count_writes(verbs) == writes, verbs
        assert not verbs["get"], verbs
        assert not verbs["list"], verbs


def await_logged(cluster: Cluster, since: int, writes: int) -> None:
    what = f"fewer than {writes} writes are logged"
    wait_until(lambda: count_writes(requests(cluster, since)) >= writes, what, timeout_seconds=10)


def requests(cluster: Cluster, since: int) -> Counter[str]:
    """Count the requests of controllers after a mark by verb, with Events separate from other writes."""
    verbs: Counter[str] = Counter()
    for kind, count in cluster.audit.counts(since=since, user=CONTROLLER_USER).items():
        verbs[kind.verb] += count if kind.resource != "events" else 0
    return verbs


def count_writes(verbs: Counter[str]) -> int:
    return sum(verbs[verb] for verb in ("create", "patch", "update", "delete"))


def test_no_request_of_the_controller_is_forbidden(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    mark = cluster.audit.mark()
    start(LIMIT_OF_TWO)
    openrl.submit(workload("first"), workload("second"))
    openrl.await_phases(["first", "second"], "Running")
    openrl.submit(workload("third"))
    openrl.await_pending("third", "WaitingForCapacity")
    openrl.delete("first")
    openrl.await_phase("third", "Running")

    assert cluster.audit.refusals(since=mark, user=CONTROLLER_USER) == []
