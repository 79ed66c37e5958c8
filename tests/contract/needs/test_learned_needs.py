"""The Pod counts, not its template: admission adds requests, tolerations, selectors and affinity."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from controller.config.flags import PlacementStrategy, Settings
from simulation.apiserver.documents import Document
from simulation.apiserver.interception import Apply, Interceptor, Request
from simulation.apiserver.kinds import NODES, PODS
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload
from tests.contract.harness import claim_of, count_calls, row, seat_of, submit

pytestmark = pytest.mark.anyio

SETTINGS = Settings(leader_elect=False)
TAINT = "nvidia.com/gpu"
TOLERATION = {"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}
Change = Callable[[Document], object]


def policy(change: Change) -> Interceptor:
    """Return a mutating policy for the specs of created Pods."""

    async def intercept(request: Request, apply: Apply) -> bytes:
        if request.kind is PODS and request.verb == "create":
            change(request.body["spec"])
        return apply()

    return intercept


def small(name: str) -> Document:
    """Return a worker whose template requests no memory."""
    document = workload(name)
    del document["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"]
    return document


def default_request(spec: Document) -> None:
    for container in spec["containers"]:
        container.setdefault("resources", {}).setdefault("requests", {}).setdefault("memory", "300Gi")


def default_limit(spec: Document) -> None:
    spec["containers"][0]["resources"].setdefault("limits", {}).setdefault("memory", "300Gi")


def overhead(spec: Document) -> None:
    spec["overhead"] = {"memory": "300Gi"}


def one_more_container(spec: Document) -> None:
    resources = {"requests": {"memory": "300Gi"}}
    spec["containers"].insert(0, {"name": "proxy", "image": "proxy:1", "resources": resources})


def sidecar(spec: Document) -> None:
    resources = {"requests": {"memory": "300Gi"}}
    proxy = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "resources": resources}
    spec["initContainers"] = [proxy]


def pod_level(spec: Document) -> None:
    spec["resources"] = {"requests": {"memory": "300Gi"}}


@pytest.mark.parametrize(
    "change", [default_request, default_limit, overhead, one_more_container, sidecar, pod_level]
)
async def test_workers_whose_pods_are_larger_than_their_templates_run_on_a_node_each(
    cluster: SimulatedCluster, change: Change
) -> None:
    """Two Pods of 300Gi do not fit on a node of 512Gi. Only the first Pod has to show that."""
    async with simulated_controller(cluster, SETTINGS, interceptor=policy(change)):
        cluster.fleet.add_nodes(6)
        for number in range(6):
            cluster.workloads.submit(small(f"worker-{number}"))
            await anyio.sleep(5)
        await anyio.sleep(60)
        assert len(cluster.workloads.in_phase("Running")) == 6
        assert count_calls(cluster, "create", PODS, client="controller") == 6


async def test_a_seat_counts_with_what_the_pod_requests(cluster: SimulatedCluster) -> None:
    """The Pod of the second seat is larger than its template, and unbound when a third worker is created."""

    def change(spec: Document) -> None:
        spec["overhead"] = {"memory": "200Gi"}
        if cluster.workloads.get("second") is not None:
            spec["schedulerName"] = "nobody"

    async with simulated_controller(cluster, SETTINGS, interceptor=policy(change)):
        cluster.fleet.add_nodes(2)
        await submit(cluster, "first")
        cluster.workloads.submit(workload("second"))
        await anyio.sleep(5)
        await submit(cluster, "third")
        assert claim_of(cluster, "second") == claim_of(cluster, "first")
        assert claim_of(cluster, "third") != claim_of(cluster, "first")
        seat = seat_of(cluster, "second")
        assert seat is not None
        assert seat[1]["hostRequest"] == "201Gi"


@pytest.mark.parametrize("exclusive_first", [False, True])
async def test_a_toleration_that_a_policy_adds_opens_the_nodes(
    cluster: SimulatedCluster, *, exclusive_first: bool
) -> None:
    """A worker without a Pod is judged by the newest Pod of its class, any other worker by its own Pod."""

    def change(spec: Document) -> None:
        spec.setdefault("tolerations", []).append(TOLERATION)

    async with simulated_controller(cluster, SETTINGS, interceptor=policy(change)):
        cluster.fleet.add_nodes(1)
        cluster.fleet.taint("gpu-node-0", TAINT, "NoSchedule", "present")
        if exclusive_first:
            await submit(cluster, "other-class", memory="10Gi")
        else:
            await submit(cluster, "first")
        await anyio.sleep(20)
        cluster.workloads.submit(workload("second"))
        await anyio.sleep(120)
        assert row(cluster, "second")[0] == "Running"


async def test_a_toleration_with_an_end_opens_no_node(cluster: SimulatedCluster) -> None:
    """The taint manager would evict the worker again and again."""

    def change(spec: Document) -> None:
        ending = {"key": TAINT, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        spec.setdefault("tolerations", []).append(ending)

    async with simulated_controller(cluster, SETTINGS, interceptor=policy(change)):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "first")
        cluster.fleet.taint("gpu-node-0", TAINT, "NoExecute", "present")
        await submit(cluster, "second")
        assert claim_of(cluster, "second") != claim_of(cluster, "first")


def zone_selector(spec: Document) -> None:
    spec["nodeSelector"] = {"zone": "a"}


def terms(spec: Document) -> list[Document]:
    """Return the required terms of a Pod's node affinity."""
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found: list[Document] = affinity["nodeSelectorTerms"]
    return found


def zone_in_each_term(spec: Document) -> None:
    for term in terms(spec):
        term["matchExpressions"].append({"key": "zone", "operator": "In", "values": ["a", "c"]})


def not_zone_b(spec: Document) -> None:
    for term in terms(spec):
        term["matchExpressions"].append({"key": "zone", "operator": "NotIn", "values": ["b"]})


def not_the_first_node(spec: Document) -> None:
    for term in terms(spec):
        name = {"key": "metadata.name", "operator": "NotIn", "values": ["gpu-node-0"]}
        term.setdefault("matchFields", []).append(name)


def replaced(spec: Document) -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    terms(spec)[:] = [{"matchExpressions": [expression]}]


@pytest.mark.parametrize(
    "change", [zone_selector, zone_in_each_term, not_zone_b, not_the_first_node, replaced]
)
async def test_a_node_selector_that_a_policy_adds_closes_the_other_nodes(
    cluster: SimulatedCluster, change: Change
) -> None:
    """The claim on the first node is preferred. One refused Pod shows that the class may not run there."""
    is_strict = False

    def when_strict(spec: Document) -> None:
        if is_strict:
            change(spec)

    settings = SETTINGS.model_copy(update={"placement_strategy": PlacementStrategy.SPREAD})
    async with simulated_controller(cluster, settings, interceptor=policy(when_strict)):
        cluster.fleet.add_nodes(2)
        for number, zone in enumerate("ba"):
            cluster.server.patch(NODES, f"gpu-node-{number}", "", {"metadata": {"labels": {"zone": zone}}})
        await submit(cluster, "x", "y", memory="10Gi")
        nodes = [cluster.workloads.status(name).get("nodeName") for name in ("x", "y")]
        assert nodes == ["gpu-node-0", "gpu-node-1"]
        is_strict = True
        await submit(cluster, "first", "second", "third")
        await anyio.sleep(60)
        assert {claim_of(cluster, name) for name in ("first", "second", "third")} == {claim_of(cluster, "y")}
        assert len(cluster.workloads.in_phase("Running")) == 5


async def test_a_label_that_a_learned_selector_names_activates_those_that_wait_when_it_changes(
    cluster: SimulatedCluster,
) -> None:
    settings = SETTINGS.model_copy(
        update={"retry_interval_seconds": 36000.0, "placement_timeout_seconds": 0.0}
    )
    async with simulated_controller(cluster, settings, interceptor=policy(zone_selector)):
        cluster.fleet.add_nodes(1)
        await submit(cluster, "worker")
        await anyio.sleep(30)
        assert row(cluster, "worker")[0] == "Pending"
        cluster.server.patch(NODES, "gpu-node-0", "", {"metadata": {"labels": {"zone": "a"}}})
        await anyio.sleep(400)
        assert row(cluster, "worker")[0] == "Running"


async def test_what_was_learned_survives_a_restart(cluster: SimulatedCluster) -> None:
    def change(spec: Document) -> None:
        spec.setdefault("tolerations", []).append(TOLERATION)

    cluster.fleet.add_nodes(1)
    cluster.fleet.taint("gpu-node-0", TAINT, "NoSchedule", "present")
    async with simulated_controller(cluster, SETTINGS, interceptor=policy(change)):
        await submit(cluster, "first")
    async with simulated_controller(cluster, SETTINGS, interceptor=policy(change)):
        await submit(cluster, "second")
        await anyio.sleep(10)
        assert row(cluster, "second")[0] == "Running"
        assert claim_of(cluster, "second") == claim_of(cluster, "first")
