"""Repeated failures back off: the work in a time window has an upper bound.

The bounds are computed from the back-offs, not measured. A worker must not be reconciled in a loop because of
its own writes, of live reads that differ from the cache, or of Pods that a kubelet rejects.
"""

from __future__ import annotations

import math
from functools import partial

import anyio
import pytest

from controller.reconcile.backoff import REJECTION_HOLD_RANGE_SECONDS
from informers.api import ObjectKey
from informers.backoff import BACKOFF_BASE_SECONDS, BACKOFF_JITTER
from informers.errors import ApiError, Forbidden, ServerError, TooManyRequests
from simulation.actors.base import Delays
from simulation.apiserver.kinds import CLAIMS, PODS, WORKLOADS
from simulation.chaos.scripted import Faults, Meanwhile, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
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
    """Return the maximum number of attempts within a time window if the pauses double."""
    return 1 + int(math.log2(window_seconds / first_pause_seconds + 1))


SHORTEST_FIRST_PAUSE_SECONDS = BACKOFF_BASE_SECONDS * (1 - BACKOFF_JITTER)
ATTEMPTS_MAX = attempts_within(WINDOW_SECONDS, SHORTEST_FIRST_PAUSE_SECONDS) + 2
"""Two more than the back-off allows, for reconciles caused by the creation and a first event."""


async def test_creation_of_a_pod_refused_by_a_broken_webhook_backs_off(
    cluster: SimulatedCluster,
) -> None:
    """An unavailable webhook with failure policy Fail answers every create with 500."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    broken = partial(ServerError, "failed calling webhook")
    rule = faults.add(Refuse(broken), verb="create", kind=PODS, times=None)
    async with simulated_controller(
        cluster, SETTINGS, interceptor=faults, latency_seconds=round_trip_seconds
    ):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(WINDOW_SECONDS)
        assert 3 <= rule.hits <= ATTEMPTS_MAX
        faults.clear()
        await cluster.settle()
    assert row(cluster, "worker")[0] == "Running"


@pytest.mark.parametrize("error", [ServerError, TooManyRequests])
async def test_a_workers_own_booking_does_not_shorten_its_backoff(
    cluster: SimulatedCluster, error: type[ApiError]
) -> None:
    """The ledger write is an event for the worker that wrote it, while its claim is still refused."""
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
"""Ledger, claim and the refused status; then the ledger is emptied and deleted, and the claim deleted."""


@pytest.mark.parametrize("error", [ServerError, TooManyRequests, Forbidden])
async def test_refused_status_writes_back_off(cluster: SimulatedCluster, error: type[ApiError]) -> None:
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


async def test_pods_rejected_by_a_kubelet_are_replaced_with_doubling_delays(
    cluster: SimulatedCluster,
) -> None:
    """A node rejects every Pod, because its kubelet regards it as full and kube-scheduler does not."""
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


async def test_a_pod_bound_during_its_deletion_is_awaited_without_a_second_delete() -> None:
    """An unbound Pod is gone after its delete. A bound one keeps its name until it has stopped."""
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
    """Delete a claim manually, with or without finalizers."""
    cluster.server.edit(
        CLAIMS, ObjectKey(NAMESPACE, claim), lambda claim: claim["metadata"].pop("finalizers", None)
    )
    cluster.server.delete(CLAIMS, claim, NAMESPACE)
