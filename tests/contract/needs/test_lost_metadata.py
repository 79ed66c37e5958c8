"""Removed metadata of the controller is restored, and no object of others is mistaken for its own."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from informers.api import ObjectKey
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, LEDGERS, WORKLOADS
from simulation.checks.invariants import violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.contract.harness import (
    FINALIZER,
    claim_of,
    controller_reference,
    ledger_key,
    row,
    settings_with,
    submit,
)

pytestmark = pytest.mark.anyio

NAMESPACE = "openrl-system"
SETTINGS = settings_with(placement_timeout_seconds=0.0)


def claim_key(cluster: SimulatedCluster, name: str) -> ObjectKey:
    return ObjectKey(NAMESPACE, claim_of(cluster, name))


def owner_kinds(cluster: SimulatedCluster, key: ObjectKey) -> list[str]:
    metadata = cluster.server.get(CLAIMS, key.name, key.namespace).metadata
    return [owner["kind"] for owner in metadata.get("ownerReferences") or ()]


def without_owners(document: Document) -> None:
    del document["metadata"]["ownerReferences"]


def without_owners_and_labels(document: Document) -> None:
    del document["metadata"]["ownerReferences"], document["metadata"]["labels"]


def without_labels(document: Document) -> None:
    del document["metadata"]["labels"]


@pytest.mark.parametrize("strip", [without_owners, without_labels, without_owners_and_labels])
async def test_a_claim_that_lost_its_owner_or_labels_is_shared_again_and_removed_in_the_end(
    cluster: SimulatedCluster, strip: Callable[[Document], None]
) -> None:
    async with simulated_controller(cluster, SETTINGS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        key = claim_key(cluster, "first")
        cluster.server.edit(CLAIMS, key, strip)
        await cluster.settle()
        assert owner_kinds(cluster, key) == ["ClaimLedger"]
        await submit(cluster, "second")
        assert row(cluster, "second")[0] == "Running"
        cluster.server.edit(CLAIMS, key, strip)
        await cluster.settle()
        cluster.workloads.delete("first")
        cluster.workloads.delete("second")
        await anyio.sleep(60)
        assert not cluster.workloads.claims()
        assert not violations_at_rest(cluster)


async def test_the_owners_that_others_added_stay(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, SETTINGS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        key = claim_key(cluster, "first")
        uid = cluster.server.get(WORKLOADS, "first", NAMESPACE).uid
        other = controller_reference("first", uid) | {"controller": False}
        cluster.server.edit(CLAIMS, key, lambda d: d["metadata"].update(ownerReferences=[other]))
        await cluster.settle()
        assert sorted(owner_kinds(cluster, key)) == ["ClaimLedger", "Workload"]


async def test_a_claim_of_others_with_a_name_of_ours_is_never_given_an_owner(
    cluster: SimulatedCluster,
) -> None:
    """Somebody deletes the claim of a worker, and creates a claim with that name for another purpose."""
    async with simulated_controller(cluster, SETTINGS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        key = claim_key(cluster, "first")
    claim = cluster.server.get(CLAIMS, key.name, key.namespace).copy()
    exactly = {"deviceClassName": "nic.example.com", "allocationMode": "ExactCount", "count": 1}
    cluster.server.store.remove(CLAIMS, key)
    document = {
        "metadata": {"name": key.name, "labels": claim["metadata"]["labels"]},
        "spec": {"devices": {"requests": [{"name": "nic", "exactly": exactly}]}},
    }
    cluster.server.create(CLAIMS, NAMESPACE, document)
    async with simulated_controller(cluster, SETTINGS):
        await anyio.sleep(300)
        assert owner_kinds(cluster, key) == []
        assert claim_of(cluster, "first") not in {"", key.name}
        assert row(cluster, "first")[0] == "Running"


async def test_a_finalizer_that_somebody_removed_returns(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, SETTINGS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        cluster.server.edit(
            WORKLOADS, ObjectKey(NAMESPACE, "first"), lambda d: d["metadata"].update(finalizers=[])
        )
        await cluster.settle()
        assert cluster.server.get(WORKLOADS, "first", NAMESPACE).metadata["finalizers"] == [FINALIZER]


async def test_the_labels_of_a_ledger_return_with_its_next_write(cluster: SimulatedCluster) -> None:
    async with simulated_controller(cluster, SETTINGS):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        key = ledger_key(claim_of(cluster, "first"))
        labels = cluster.server.get(LEDGERS, key.name, key.namespace).metadata["labels"]
        cluster.server.edit(LEDGERS, key, without_labels)
        await submit(cluster, "second")
        assert cluster.server.get(LEDGERS, key.name, key.namespace).metadata["labels"] == labels
