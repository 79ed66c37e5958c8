"""A refused worker says so, holds nothing, and starts soon after the rule is gone, whatever refuses what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from http import HTTPStatus

import anyio
import pytest

from informers.errors import Conflict, Forbidden, NotFound, ServerError
from simulation.apiserver.admission.denials import DenyingPolicy, DenyingWebhook, FailingWebhook
from simulation.apiserver.kinds import CLAIMS, EVENTS, LEDGERS, PODS, WORKLOADS, Kind
from simulation.chaos.scripted import Faults, Refuse
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import holdings, row, settings_with, submit

pytestmark = pytest.mark.anyio

WORDS = "a cost centre is missing"
RELENTED_SECONDS = 61
FOREVER = settings_with(placement_timeout_seconds=0.0)
KINDS = {"pod": PODS, "claim": CLAIMS, "ledger": LEDGERS}

Rule = Callable[[Kind], object]
RULES: dict[str, Rule] = {
    "policy 403": partial(DenyingPolicy, message=WORDS, reason="Forbidden"),
    "policy 422": partial(DenyingPolicy, message=WORDS, reason="Invalid"),
    "policy 401": partial(DenyingPolicy, message=WORDS, reason="Unauthorized"),
    "policy 413": partial(DenyingPolicy, message=WORDS, reason="RequestEntityTooLarge"),
    "webhook 400": partial(DenyingWebhook, code=HTTPStatus.BAD_REQUEST),
    "webhook 429": partial(DenyingWebhook, code=HTTPStatus.TOO_MANY_REQUESTS),
    "webhook 500": partial(DenyingWebhook, code=HTTPStatus.INTERNAL_SERVER_ERROR),
    "webhook without dry run": partial(DenyingWebhook, code=HTTPStatus.FORBIDDEN, supports_dry_run=False),
    "webhook down": FailingWebhook,
}


def applied(cluster: SimulatedCluster, rule: Rule, kind: Kind) -> AbstractContextManager[object]:
    return cluster.server.admission.applied(rule(kind))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
async def test_a_refused_worker_says_so_holds_nothing_and_starts_once_it_is_permitted(
    cluster: SimulatedCluster, rule: Rule, kind: Kind
) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        with applied(cluster, rule, kind):
            cluster.workloads.submit(workload("worker"))
            await anyio.sleep(60)
            assert row(cluster, "worker")[:3] == ("Pending", "False", "PodRejected")
            assert holdings(cluster) == []
            await anyio.sleep(600)
        await anyio.sleep(RELENTED_SECONDS)
        assert row(cluster, "worker")[0] == "Running"


ERRORS = {
    "no namespace": NotFound('namespaces "openrl-system" not found', status=404),
    "quota conflict": Conflict("Operation cannot be fulfilled on resourcequotas", status=409),
    "quota times out": ServerError("timeout waiting for the quota", status=504),
    "server errors": ServerError("etcdserver: no leader", status=500),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("error", ERRORS.values(), ids=list(ERRORS))
async def test_every_other_refusal_has_its_words_within_a_minute(
    cluster: SimulatedCluster, kind: Kind, error: Exception
) -> None:
    faults = Faults()
    faults.add(Refuse(lambda: error), verb="create", kind=kind, times=None)  # type: ignore[arg-type, return-value]
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER, interceptor=faults):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        assert row(cluster, "worker")[0] == "Pending"
        assert "PodRejected" in row(cluster, "worker")[3]
        assert holdings(cluster) == []
        faults.clear()
        await anyio.sleep(RELENTED_SECONDS)
        assert row(cluster, "worker")[0] == "Running"


async def test_the_placement_timeout_holds_while_a_webhook_is_down(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, settings_with(placement_timeout_seconds=900.0)):
        with applied(cluster, FailingWebhook, PODS):
            cluster.workloads.submit(workload("worker"))
            await anyio.sleep(960)
            assert row(cluster, "worker")[0] == "Failed"
            assert "failed calling webhook" in row(cluster, "worker")[3]


async def test_a_refused_worker_can_be_deleted(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        with applied(cluster, FailingWebhook, PODS):
            await submit(cluster, "worker")
            cluster.workloads.delete("worker")
            await cluster.settle()
            assert cluster.workloads.is_empty()


async def test_a_worker_over_a_quota_of_claims_still_books_a_seat(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER):
        await submit(cluster, "exclusive", shared=False)
        with applied(cluster, partial(DenyingPolicy, message=WORDS), CLAIMS):
            cluster.fleet.add_node("another")
            cluster.workloads.submit(workload("worker"))
            await anyio.sleep(10)
            assert row(cluster, "worker")[3].startswith("PodRejected: ResourceClaim: ")
        await anyio.sleep(RELENTED_SECONDS)
        with applied(cluster, partial(DenyingPolicy, message=WORDS), CLAIMS):
            await submit(cluster, "guest")
            assert row(cluster, "guest")[0] == "Running"


async def test_a_refused_status_write_is_reported_in_an_event(cluster: SimulatedCluster) -> None:
    faults = Faults()
    refuse = Refuse(partial(Forbidden, "denied: statuses are frozen", status=403))
    faults.add(refuse, verb="patch", kind=WORKLOADS, times=None)
    cluster.fleet.add_nodes(1)
    async with simulated_controller(cluster, FOREVER, interceptor=faults):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(60)
        events = [e for e in cluster.server.documents(EVENTS) if e["regarding"]["name"] == "worker"]
        assert any("statuses are frozen" in event["note"] for event in events)
        faults.clear()
        await anyio.sleep(301)
        assert row(cluster, "worker")[0] == "Running"
