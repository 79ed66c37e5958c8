"""A lagging cache leads to no removal and no booking: live reads come first.

A controller whose watches lag by a minute runs beside one that is up to date, as after a network fault or a
takeover. A single controller may also receive two changes of one object seconds apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from controller.reconcile.losses.memory import LOSS_DELAY_RANGE_SECONDS
from informers.api import ObjectKey
from informers.errors import Forbidden
from ledger.claim_names import ledger_name, own_claim_name
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS, Kind
from simulation.chaos.scripted import Disconnect, Faults, LoseAnswer, Refuse
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    claim_of,
    count_calls,
    foreign_seat,
    pod_uid,
    round_trip_seconds,
    row,
    seat_of,
    settings_with,
    submit,
)

pytestmark = pytest.mark.anyio

SETTINGS = settings_with(retry_interval_seconds=10.0)
LAG_SECONDS = 60.0
NAMESPACE = "openrl-system"
MANAGED = {"openrl.io/managed": "true"}


@asynccontextmanager
async def two_controllers(cluster: SimulatedCluster) -> AsyncIterator[None]:
    """Run `prompt` and `lagging` without leader election."""
    async with (
        simulated_controller(cluster, SETTINGS, identity="prompt", latency_seconds=round_trip_seconds),
        simulated_controller(cluster, SETTINGS, identity="lagging", latency_seconds=round_trip_seconds),
    ):
        yield


def let_lag(cluster: SimulatedCluster, *kinds: Kind) -> None:
    """Delay the watch events of these kinds for `lagging` by a minute."""

    def lag_seconds(client: str, kind: Kind) -> float:
        return LAG_SECONDS if client == "lagging" and kind in kinds else 0.0

    cluster.watches.lag_seconds = lag_seconds


async def test_a_seat_that_the_cache_does_not_show_yet_is_released_with_its_worker(
    cluster: SimulatedCluster,
) -> None:
    """Another process crashed between booking and commit; then the worker is deleted."""
    async with simulated_controller(cluster, SETTINGS, identity="lagging"):
        await submit(cluster, "worker")
        let_lag(cluster, LEDGERS)
        await delete_behind_a_booking(cluster, "worker")
        assert cluster.server.documents(LEDGERS, NAMESPACE) == []


async def test_a_seat_whose_booking_got_no_answer_is_released_with_its_worker(
    cluster: SimulatedCluster,
) -> None:
    """The server stops in the middle of a booking and returns; its watches show the seat later."""
    faults = Faults()
    async with simulated_controller(cluster, SETTINGS, identity="lagging", interceptor=faults):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        claim = claim_of(cluster, "first")
        let_lag(cluster, LEDGERS)
        faults.add(LoseAnswer(), verb="patch", kind=LEDGERS)
        faults.add(Disconnect(), verb="get", kind=LEDGERS, times=None)
        cluster.workloads.submit(workload("second"))
        await cluster.wait_until(lambda: seat_of(cluster, "second") is not None, "it has no seat")
        cluster.workloads.delete("second")
        await anyio.sleep(LAG_SECONDS / 3)
        faults.clear()
        await cluster.wait_until(lambda: cluster.workloads.get("second") is None, "it is not gone")
        assert seat_of(cluster, "second") is None
        assert claim_of(cluster, "first") == claim


async def test_a_successors_pod_is_not_mistaken_for_a_predecessors(cluster: SimulatedCluster) -> None:
    """A Workload is recreated; the lagging cache shows the old Workload and the new one's Pod."""
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with two_controllers(cluster):
        await submit(cluster, "worker")
        let_lag(cluster, WORKLOADS, LEDGERS, CLAIMS)
        cluster.workloads.delete("worker")
        await cluster.wait_until(lambda: cluster.workloads.get("worker") is None, "it is not gone")
        cluster.workloads.submit(workload("worker"))
        since = len(cluster.audit)
        await cluster.wait_until(lambda: row(cluster, "worker")[0] == "Running", "it does not run")
        uid = pod_uid(cluster, "worker")
        await anyio.sleep(LAG_SECONDS)
        assert count_calls(cluster, "delete", PODS, since=since, client="lagging") == 0
        await cluster.settle()
    assert pod_uid(cluster, "worker") == uid
    assert violations_at_rest(cluster) == []
    assert not invariants.violations


async def test_a_seat_being_released_by_another_process_is_not_booked_again(
    cluster: SimulatedCluster,
) -> None:
    """The lagging cache shows no deletion, so the seat looks lost and in need of repair."""
    cluster.fleet.add_nodes(1)
    invariants = InvariantChecker(cluster)
    async with two_controllers(cluster):
        await submit(cluster, "worker")
        let_lag(cluster, WORKLOADS)
        since = len(cluster.audit)
        cluster.workloads.delete("worker")
        await anyio.sleep(LAG_SECONDS / 3)
        assert cluster.workloads.is_empty()
        assert count_calls(cluster, "create", LEDGERS, since=since) == 0
        await cluster.settle()
    assert not invariants.violations


async def test_a_finished_pod_whose_removal_is_not_seen_yet_is_read_once(cluster: SimulatedCluster) -> None:
    """The failure of a Pod arrives a second before its removal: the cache keeps the newer live read."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, SETTINGS, latency_seconds=round_trip_seconds):
        await submit(cluster, "worker")
        # Shorter than the timeout of a silent watch.
        first, lag = pod_uid(cluster, "worker"), 20.0
        cluster.watches.lag_seconds = lambda _client, kind: lag if kind is PODS else 0.0
        cluster.kubelet.fail(cluster.workloads.pod_key("worker"))
        await anyio.sleep(1)
        cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
        since = len(cluster.audit)
        await anyio.sleep(lag + 1)
        assert pod_uid(cluster, "worker") not in {"", first}
        assert count_calls(cluster, "get", PODS, since=since) == 1
        await cluster.settle(quiet_seconds=lag)
    assert row(cluster, "worker")[0] == "Running"
    assert claim_of(cluster, "worker")


async def test_the_object_that_a_write_conflicted_with_is_read_at_once(cluster: SimulatedCluster) -> None:
    """A label edit arrives late and triggers no reconcile, but its Pod must be replaced."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, SETTINGS, identity="lagging"):
        await submit(cluster, "worker")
        first = pod_uid(cluster, "worker")
        let_lag(cluster, WORKLOADS)
        edit_labels(cluster, WORKLOADS, "worker", {"a": "b"})
        since = len(cluster.audit)
        cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
        await anyio.sleep(LAG_SECONDS / 10)
        assert row(cluster, "worker")[0] == "Running"
        assert pod_uid(cluster, "worker") not in {"", first}
        assert count_calls(cluster, "get", WORKLOADS, since=since) == 1
        await cluster.settle(quiet_seconds=LAG_SECONDS)
    assert violations_at_rest(cluster) == []


async def test_a_failed_read_after_a_conflict_does_not_count_as_a_rejection(
    cluster: SimulatedCluster,
) -> None:
    """The conflict counts and is retried at once; a rejection would make the worker back off."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(Refuse(lambda: Forbidden("no right to get workloads")), verb="get", kind=WORKLOADS)
    async with simulated_controller(cluster, SETTINGS, identity="lagging", interceptor=faults) as process:
        await submit(cluster, "worker")
        claim, first = claim_of(cluster, "worker"), pod_uid(cluster, "worker")
        let_lag(cluster, WORKLOADS)
        edit_labels(cluster, WORKLOADS, "worker", {"a": "b"})
        cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
        await anyio.sleep(LOSS_DELAY_RANGE_SECONDS[0] + 0.5)
        assert pod_uid(cluster, "worker") not in {"", first}
        uid = cluster.workloads.get("worker")["metadata"]["uid"]  # type: ignore[index]
        assert process.controller.local_state.rejection_backoff.count(uid) == 0
        assert claim_of(cluster, "worker") == claim


@pytest.mark.parametrize("labels", [{}, MANAGED | {"a": "b"}], ids=["taken away", "edited"])
async def test_a_claim_is_repointed_despite_a_concurrent_label_edit(
    cluster: SimulatedCluster, labels: dict[str, str]
) -> None:
    """A claim is edited and its ledger deleted. The edit arrives late, but the claim is repaired soon."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, SETTINGS, identity="lagging"):
        await submit(cluster, "worker")
        claim, first = claim_of(cluster, "worker"), pod_uid(cluster, "worker")
        let_lag(cluster, CLAIMS)
        edit_labels(cluster, CLAIMS, claim, labels)
        cluster.server.delete(LEDGERS, ledger_name(claim), NAMESPACE)
        await cluster.settle(quiet_seconds=2 * LAG_SECONDS)
        found = cluster.server.document(CLAIMS, claim, NAMESPACE)
        assert found is not None
        assert found["metadata"]["labels"]["openrl.io/managed"] == "true"
        assert pod_uid(cluster, "worker") == first
    assert violations_at_rest(cluster) == []


async def test_an_unused_own_claim_is_deleted_with_a_worker_that_has_a_seat_elsewhere(
    cluster: SimulatedCluster,
) -> None:
    """Another process with a lagging cache created a claim for it and crashed; then the worker is deleted."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, SETTINGS, identity="lagging"):
        await submit(cluster, "creator", "worker")
        assert claim_of(cluster, "worker") == claim_of(cluster, "creator")
        let_lag(cluster, LEDGERS)
        await delete_behind_a_booking(cluster, "worker")
        assert list(cluster.workloads.seats().values()) == [["creator"]]


def edit_labels(cluster: SimulatedCluster, kind: Kind, name: str, labels: dict[str, str]) -> None:
    """Replace the labels of an object."""
    key = ObjectKey(NAMESPACE, name)
    cluster.server.edit(kind, key, lambda document: document["metadata"].update(labels=labels))


async def delete_behind_a_booking(cluster: SimulatedCluster, name: str) -> None:
    """Delete a worker whose booking process crashed between the ledger and the claim."""
    uid = cluster.server.get(WORKLOADS, name, NAMESPACE).uid
    claim = own_claim_name(name, uid)
    spec = {"claimName": claim, "seats": [foreign_seat(name, uid=uid)]}
    labels = MANAGED | {"openrl.io/claim": claim}
    body = {"metadata": {"name": ledger_name(claim), "labels": labels}, "spec": spec}
    cluster.server.create(LEDGERS, NAMESPACE, body)
    cluster.workloads.delete(name)
    await cluster.wait_until(lambda: cluster.workloads.get(name) is None, "it is not gone")
