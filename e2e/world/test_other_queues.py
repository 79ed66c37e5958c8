"""The finalizer of another queue's admission, replayed by a policy.

Kueue adds one to the Pods that it manages. It keeps them for some time after their deletion.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, Api, ApiRefused, Cluster
from e2e.harness.workloads import PODS, WorkloadClient, one_gpu_nodes, workload
from e2e.world.admission import changed_pods

pytest_plugins = ("e2e.controlplane.fixtures",)

FINALIZER = "kueue.x-k8s.io/managed"
KEPT = f'Object{{metadata: Object.metadata{{finalizers: ["{FINALIZER}"]}}}}'
LIMIT_OF_TWO = {"--max-seats-per-claim": "2"}
POLL_SECONDS = 0.1
KEPT_SECONDS = 0.5
HAND_OFF_SECONDS = 5


@contextmanager
def finalizers_removed(api: Api) -> Iterator[None]:
    """Remove the finalizer of each deleted Pod half a second after its deletion."""
    stopped = threading.Event()

    def remove() -> None:
        since: dict[str, float] = {}
        while not stopped.wait(POLL_SECONDS):
            for pod in api.items(PODS):
                meta = pod["metadata"]
                if "deletionTimestamp" not in meta or not meta.get("finalizers"):
                    continue
                if time.monotonic() - since.setdefault(meta["uid"], time.monotonic()) >= KEPT_SECONDS:
                    with suppress(ApiRefused):
                        api.patch(f"{PODS}/{meta['name']}", {"metadata": {"finalizers": None}})

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def test_a_seat_is_handed_over_with_one_pod_although_a_finalizer_keeps_the_old_one(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 1)
    start(LIMIT_OF_TWO)
    with changed_pods(cluster.api, KEPT), finalizers_removed(cluster.api):
        openrl.submit(*(workload(name) for name in ("first", "second")))
        openrl.await_phases(["first", "second"], "Running")
        openrl.submit(workload("waits-1"))
        openrl.await_pending("waits-1", "WaitingForCapacity")
        openrl.submit(workload("waits-2"))
        openrl.await_pending("waits-2", "WaitingForCapacity")
        shared = openrl.status("first")["claimName"]
        mark = cluster.audit.mark()

        openrl.delete("first")
        openrl.await_that(
            lambda: openrl.in_phase("Running") == {"second", "waits-1"},
            "the seat is not handed over",
            timeout_seconds=HAND_OFF_SECONDS,
        )

        assert openrl.seats()[shared] == ["second", "waits-1"]
        created = cluster.audit.count(since=mark, user=CONTROLLER_USER, verb="create", resource="pods")
        assert created == 1
        for name in ("second", "waits-1", "waits-2"):
            openrl.delete(name)
        openrl.await_gone()
