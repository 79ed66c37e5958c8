"""Whatever goes on failing is tried with a back-off: work in a window of time has an upper bound.

The bounds are arithmetic on the back-offs, not measurements. A worker whose own writes woke it, whose
reads disagree with the cache or whose Pod a kubelet rejects must not go around without a pause.
"""

from __future__ import annotations

import math
from functools import partial

import anyio
import pytest

from controller.reconcile.local_state import REJECTION_HOLD_RANGE_SECONDS
from informers.api import ObjectKey
from informers.backoff import BACKOFF_BASE_SECONDS, BACKOFF_JITTER
from informers.errors import ApiError, Forbidden, ServerError, TooManyRequests
from simulation.actors.base import Delays
from simulation.apiserver.kinds import CLAIMS, PODS, WORKLOADS
from simulation.chaos.scripted import Faults, Meanwhile, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    claim_of,
    count_calls,
    is_waiting_for_a_kubelet,
    pod_uid,
    round_trip_seconds,
    row,
    settings_with,
    submit,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
SETTINGS = settings_with(retry_interval_seconds=10.0)
WINDOW_SECONDS = 10.0


def attempts_within(window_seconds: float, first_pause_seconds: float) -> int:
    """How often something is tried at most in a window, from its start on, by pauses that double."""
    return 1 + int(math.log2(window_seconds / first_pause_seconds + 1))


SHORTEST_FIRST_PAUSE_SECONDS = BACKOFF_BASE_SECONDS * (1 - BACKOFF_JITTER)
ATTEMPTS_MAX = attempts_within(WINDOW_SECONDS, SHORTEST_FIRST_PAUSE_SECONDS) + 2
"""Two more than the back-off allows: looks that the worker's own creation and a first event may cause."""


async def test_pods_that_a_broken_webhook_refuses_are_retried_with_back_off(
    cluster: SimulatedCluster,
) -> None:
    """A webhook with failure policy Fail that nobody answers is a 500 on every create."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    broken = partial(ServerError, "failed calling webhook")
    rule = faults.add(Refuse(broken), verb="create", kind=PODS, times=None)
    async with simulated_controller(
        cluster, SETTINGS, interceptor=faults, latency_seconds=round_trip_seconds
    ):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(WINDOW_SECONDS)
        assert 5 <= rule.hits <= ATTEMPTS_MAX
        faults.clear()
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Running"


@pytest.mark.parametrize("error", [ServerError, TooManyRequests])
async def test_a_booking_of_its_own_does_not_cut_a_workers_back_off_short(
    cluster: SimulatedCluster, error: type[ApiError]
) -> None:
    """Its ledger write is told to the worker that wrote it, while the claim goes on being refused."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    rule = faults.add(Refuse(partial(error, "busy")), verb="create", kind=CLAIMS, times=None)
    async with simulated_controller(
        cluster, SETTINGS, interceptor=faults, latency_seconds=round_trip_seconds
    ):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(WINDOW_SECONDS)
        assert 5 <= rule.hits <= ATTEMPTS_MAX
        faults.clear()
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Running"


WRITES_OF_AN_ATTEMPT = 6
"""Ledger, claim, the status that is refused; then ledger emptied, ledger deleted, claim deleted."""


@pytest.mark.parametrize("error", [ServerError, TooManyRequests, Forbidden])
async def test_statuses_that_are_refused_are_retried_with_back_off(
    cluster: SimulatedCluster, error: type[ApiError]
) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    refuse = Refuse(partial(error, "busy"))
    faults.add(refuse, verb="patch", kind=WORKLOADS, subresource="status", times=None)
    async with simulated_controller(
        cluster, SETTINGS, interceptor=faults, latency_seconds=round_trip_seconds
    ):
        since = len(cluster.audit)
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(WINDOW_SECONDS)
        writes = sum(entry.request.writes for entry in cluster.calls(since=since))
        # The finalizer is written once.
        assert writes <= 1 + ATTEMPTS_MAX * WRITES_OF_AN_ATTEMPT
        faults.clear()
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Running"


async def test_pods_that_a_kubelet_rejects_are_replaced_with_a_pause_that_doubles(
    cluster: SimulatedCluster,
) -> None:
    """A node that is full by the kubelet's count and not by kube-scheduler's takes none, time after time."""
    minute = 60.0
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, SETTINGS, latency_seconds=round_trip_seconds):
        since = len(cluster.audit)
        cluster.workloads.submit(workload("worker"))
        with anyio.move_on_after(minute):
            while True:
                await cluster.wait_until(lambda: is_waiting_for_a_kubelet(cluster, "worker"), "not bound")
                cluster.kubelet.reject(cluster.workloads.pod_key("worker"), "OutOfmemory")
        created = count_calls(cluster, "create", PODS, since=since)
        assert 3 <= created <= attempts_within(minute, REJECTION_HOLD_RANGE_SECONDS[0]) + 1
        await cluster.settle(quiet_seconds=2 * minute)
    assert row(cluster, "worker")[0] == "Running"


async def test_a_pod_that_is_bound_as_it_is_deleted_is_waited_for_without_a_second_one() -> None:
    """Read unbound, it would be gone by the answer; bound meanwhile, its name is taken while it stops."""
    faults = Faults()
    async with SimulatedCluster(delays=Delays(pod_stop_seconds=2 * WINDOW_SECONDS)) as cluster:
        cluster.fleet.add_nodes(1)
        cluster.scheduler.pause()
        async with simulated_controller(
            cluster, SETTINGS, interceptor=faults, latency_seconds=round_trip_seconds
        ):
            await submit(cluster, "worker")
            claim, uid = claim_of(cluster, "worker"), pod_uid(cluster, "worker")
            bind = partial(cluster.server.bind, cluster.workloads.pod_key("worker"), uid, "gpu-node-0", [])
            rule = faults.add(Meanwhile(bind), verb="delete", kind=PODS)
            since = len(cluster.audit)
            drop_claim(cluster, claim)
            await anyio.sleep(WINDOW_SECONDS)
            assert rule.hits == 1
            assert pod_uid(cluster, "worker") == uid
            assert count_calls(cluster, "create", PODS, since=since) == 0
            assert count_calls(cluster, "delete", PODS, since=since) == 1
            cluster.scheduler.resume()
            await cluster.settle()
        assert pod_uid(cluster, "worker") not in {"", uid}
        assert row(cluster, "worker")[0] == "Running"


def drop_claim(cluster: SimulatedCluster, claim: str) -> None:
    """Delete a claim by hand, finalizers or not."""
    cluster.server.edit(
        CLAIMS, ObjectKey(NAMESPACE, claim), lambda claim: claim["metadata"].pop("finalizers", None)
    )
    cluster.server.delete(CLAIMS, claim, NAMESPACE)
