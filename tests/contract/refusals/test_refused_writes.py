"""A refused patch or deletion, of whatever object and with whatever code, has words and ends."""

from __future__ import annotations

import anyio
import pytest

from informers.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, ServerError
from simulation.apiserver.kinds import CLAIMS, EVENTS, LEDGERS, PODS, WORKLOADS, Kind
from simulation.chaos.scripted import Faults, Refuse, Rule
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import holdings, row, settings_with, submit

pytestmark = pytest.mark.anyio

WORDS = "writes are frozen"
FOREVER = settings_with(placement_timeout_seconds=0.0)
LONGEST_DELAY_SECONDS = 301.0
ATTEMPTS_OF_FIVE_MINUTES = 12
WEBHOOK = f'admission webhook "check.example.com" denied the request: {WORDS}'

ERRORS: dict[str, ApiError] = {
    "rbac 403": Forbidden(WORDS, status=403),
    "policy 422": Invalid(f"ValidatingAdmissionPolicy 'freeze' denied request: {WORDS}", status=422),
    "webhook 404": NotFound(WEBHOOK, status=404),
    "webhook 409": Conflict(WEBHOOK, status=409),
    "webhook 500": ServerError(f"failed calling webhook: {WORDS}", status=500),
}


@pytest.fixture(params=ERRORS.values(), ids=list(ERRORS))
def error(request: pytest.FixtureRequest) -> ApiError:
    found: ApiError = request.param
    return found


def refuse(faults: Faults, error: ApiError, verb: str, kind: Kind, subresource: str | None = None) -> Rule:
    refusal = Refuse(lambda: error)
    return faults.add(refusal, verb=verb, kind=kind, subresource=subresource, times=None)


def notes(cluster: SimulatedCluster, worker: str) -> list[str]:
    events = cluster.server.documents(EVENTS)
    return [event["note"] for event in events if event["regarding"]["name"] == worker]


def words_of(cluster: SimulatedCluster, worker: str) -> str:
    """Return all that a user sees of a worker."""
    return " ".join([row(cluster, worker)[3], *notes(cluster, worker)])


async def test_a_refused_finalizer_is_in_the_status(cluster: SimulatedCluster, error: ApiError) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    rule = refuse(faults, error, "patch", WORKLOADS, "")
    async with simulated_controller(cluster, FOREVER, interceptor=faults):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(300)
        assert row(cluster, "worker")[:3] == ("Pending", "False", "PodRejected")
        assert WORDS in row(cluster, "worker")[3]
        assert rule.hits <= ATTEMPTS_OF_FIVE_MINUTES
        assert holdings(cluster) == []
        faults.clear()
        await anyio.sleep(LONGEST_DELAY_SECONDS)
        assert row(cluster, "worker")[0] == "Running"


async def test_a_refused_status_is_in_an_event(cluster: SimulatedCluster, error: ApiError) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    rule = refuse(faults, error, "patch", WORKLOADS, "status")
    async with simulated_controller(cluster, FOREVER, interceptor=faults):
        cluster.workloads.submit(workload("worker"))
        await anyio.sleep(300)
        assert any(WORDS in note for note in notes(cluster, "worker"))
        assert rule.hits <= 3 * ATTEMPTS_OF_FIVE_MINUTES, "assignment, fence and report of each attempt"
        faults.clear()
        await anyio.sleep(LONGEST_DELAY_SECONDS)
        assert row(cluster, "worker")[0] == "Running"


async def test_a_refused_seat_is_in_the_status(cluster: SimulatedCluster, error: ApiError) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    async with simulated_controller(cluster, FOREVER, interceptor=faults):
        await submit(cluster, "creator")
        rule = refuse(faults, error, "patch", LEDGERS)
        cluster.workloads.submit(workload("guest"))
        await anyio.sleep(300)
        assert row(cluster, "guest")[:3] == ("Pending", "False", "PodRejected")
        assert WORDS in row(cluster, "guest")[3]
        assert rule.hits <= ATTEMPTS_OF_FIVE_MINUTES
        faults.clear()
        await anyio.sleep(LONGEST_DELAY_SECONDS)
        assert row(cluster, "guest")[0] == "Running"


@pytest.mark.parametrize(
    ("verb", "kind", "subresource"),
    [
        ("delete", PODS, None),
        ("patch", LEDGERS, None),
        ("delete", LEDGERS, None),
        ("delete", CLAIMS, None),
        ("patch", WORKLOADS, ""),
    ],
    ids=["pod", "seats", "ledger", "claim", "finalizer"],
)
async def test_a_deletion_that_is_refused_says_so_and_ends(
    cluster: SimulatedCluster, error: ApiError, verb: str, kind: Kind, subresource: str | None
) -> None:
    cluster.fleet.add_nodes(1)
    faults = Faults()
    async with simulated_controller(cluster, FOREVER, interceptor=faults):
        await submit(cluster, "worker")
        rule = refuse(faults, error, verb, kind, subresource)
        cluster.workloads.delete("worker")
        await anyio.sleep(300)
        assert rule.hits <= 2 * ATTEMPTS_OF_FIVE_MINUTES
        assert WORDS in words_of(cluster, "worker")
        faults.clear()
        await anyio.sleep(LONGEST_DELAY_SECONDS)
        await cluster.settle()
        assert cluster.workloads.is_empty()
        assert holdings(cluster) == []
