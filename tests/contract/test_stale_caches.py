"""A cache that is behind takes nothing away and books nothing: fresh reads come first.

A controller whose watches lag by a minute works beside one that is up to date, as after a network fault or
a takeover; and a single one may hear of two changes of one object seconds apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from controller.reconcile.local_state import REJECTION_HOLD_RANGE_SECONDS
from informers.api import ObjectKey
from informers.errors import Forbidden
from ledger.names import ledger_name, own_claim_name
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS, WORKLOADS, Kind
from simulation.chaos.scripted import Faults, Refuse
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import (
    claim_of,
    count_calls,
    foreign_seat,
    pod_uid,
    round_trip_seconds,
    row,
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
    """`prompt` and `lagging`, without election."""
    async with (
        simulated_controller(cluster, SETTINGS, identity="prompt", latency_seconds=round_trip_seconds),
        simulated_controller(cluster, SETTINGS, identity="lagging", latency_seconds=round_trip_seconds),
    ):
        yield


def let_lag(cluster: SimulatedCluster, *kinds: Kind) -> None:
    """From now on `lagging` hears of these kinds a minute late."""

    def lag_seconds(client: str, kind: Kind) -> float:
        return LAG_SECONDS if client == "lagging" and kind in kinds else 0.0

    cluster.watches.lag_seconds = lag_seconds


async def test_a_seat_that_the_cache_does_not_show_yet_goes_with_its_worker(
    cluster: SimulatedCluster,
) -> None:
    """Another process booked its own claim and died before the commit; then the worker is deleted."""
    async with simulated_controller(cluster, SETTINGS, identity="lagging"):
        await submit(cluster, "worker")
        let_lag(cluster, LEDGERS)
        await delete_behind_a_booking(cluster, "worker")
        assert cluster.server.documents(LEDGERS, NAMESPACE) == []


async def test_a_successors_pod_is_not_taken_for_a_predecessors(cluster: SimulatedCluster) -> None:
    """A Workload is deleted and submitted again; the old cache shows the old one and the new one's Pod."""
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


async def test_a_seat_that_another_one_is_releasing_is_not_booked_again(cluster: SimulatedCluster) -> None:
    """The old cache shows no deletion: to it the seat is lost and to be repaired."""
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


async def test_an_end_that_is_known_before_the_removal_is_read_once(cluster: SimulatedCluster) -> None:
    """The failure of a Pod is heard of a second before its removal: the read that shows more is kept."""
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, SETTINGS, latency_seconds=round_trip_seconds):
        await submit(cluster, "worker")
        # Shorter than a watch that nothing is heard of is waited for.
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


async def test_what_a_write_conflicts_with_is_read_at_once(cluster: SimulatedCluster) -> None:
    """A Workload is edited, which is heard of late and wakes nobody; meanwhile its Pod has to be replaced."""
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


async def test_a_read_that_fails_after_a_conflict_is_no_refused_worker(cluster: SimulatedCluster) -> None:
    """The conflict is what counts, and is tried again at once: a refusal would hold the worker back."""
    cluster.fleet.add_nodes(1)
    faults = Faults()
    faults.add(Refuse(lambda: Forbidden("no right to get workloads")), verb="get", kind=WORKLOADS)
    async with simulated_controller(cluster, SETTINGS, identity="lagging", interceptor=faults):
        await submit(cluster, "worker")
        claim, first = claim_of(cluster, "worker"), pod_uid(cluster, "worker")
        let_lag(cluster, WORKLOADS)
        edit_labels(cluster, WORKLOADS, "worker", {"a": "b"})
        cluster.server.delete(PODS, "orw-worker", NAMESPACE, grace_seconds=0)
        await anyio.sleep(REJECTION_HOLD_RANGE_SECONDS[0] / 2)
        assert pod_uid(cluster, "worker") not in {"", first}
        assert claim_of(cluster, "worker") == claim


@pytest.mark.parametrize("labels", [{}, MANAGED | {"a": "b"}], ids=["taken away", "edited"])
async def test_a_claim_is_re_pointed_whatever_happened_to_its_labels_meanwhile(
    cluster: SimulatedCluster, labels: dict[str, str]
) -> None:
    """Somebody edits a claim, which is heard of late, and deletes its ledger: what is left is mended soon."""
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


async def test_a_claim_founded_in_vain_goes_with_a_worker_that_sits_elsewhere(
    cluster: SimulatedCluster,
) -> None:
    """Another process with an old cache founded its own claim and died; then the worker is deleted."""
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
    """Delete a worker for whom a process booked that died between the ledger of its claim and the claim."""
    uid = cluster.server.get(WORKLOADS, name, NAMESPACE).uid
    claim = own_claim_name(name, uid)
    spec = {"claimName": claim, "seats": [foreign_seat(name, uid=uid)]}
    labels = MANAGED | {"openrl.io/claim": claim}
    body = {"metadata": {"name": ledger_name(claim), "labels": labels}, "spec": spec}
    cluster.server.create(LEDGERS, NAMESPACE, body)
    cluster.workloads.delete(name)
    await cluster.wait_until(lambda: cluster.workloads.get(name) is None, "it is not gone")
