"""Rules of a cluster's owner change or refuse what is created, in dry runs as well."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import anyio
import pytest

from controller.api.dra import CLAIMS as CLAIM_RESOURCE
from controller.api.pods import PODS as POD_RESOURCE
from informers.errors import ApiError, Forbidden
from simulation.apiserver.admission import mutations
from simulation.apiserver.admission.chain import Rule
from simulation.apiserver.admission.denials import (
    DenyingPolicy,
    DenyingWebhook,
    FailingWebhook,
    MissingReference,
)
from simulation.apiserver.admission.mutations import ChangedPods
from simulation.apiserver.admission.quotas import Quota
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import CLAIMS, PODS
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE, SimulatedCluster

pytestmark = pytest.mark.anyio

POLICY = "ValidatingAdmissionPolicy 'rule-of-the-owner' with binding 'rule-of-the-owner' denied request: no"
TEAPOT = HTTPStatus.IM_A_TEAPOT


def pod(name: str = "pod", **spec: object) -> Document:
    container = {"name": "worker", "image": "worker:1"}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def refusal(cluster: SimulatedCluster, *, dry_run: bool = False) -> ApiError:
    with pytest.raises(ApiError) as raised:
        await cluster.client("test").create(POD_RESOURCE, pod(), WORKER_NAMESPACE, dry_run=dry_run)
    return raised.value


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("rule", "status", "words"),
    [
        (DenyingPolicy(PODS, message="no"), 422, POLICY),
        (DenyingPolicy(PODS, message="no", reason="Forbidden"), 403, POLICY),
        (DenyingPolicy(PODS, message="no", reason="Unauthorized"), 401, POLICY),
        (DenyingPolicy(PODS, message="no", reason="RequestEntityTooLarge"), 413, POLICY),
        (
            DenyingWebhook(PODS, message="no"),
            400,
            'admission webhook "check.example.com" denied the request: no',
        ),
        (DenyingWebhook(PODS, code=TEAPOT), TEAPOT, "denied the request: a cost centre"),
        (FailingWebhook(PODS), 500, 'failed calling webhook "check.example.com"'),
        (MissingReference(PODS), 403, 'serviceaccount "trainer" not found'),
    ],
    ids=str,
)
async def test_a_rule_refuses_pods_in_its_own_words(
    cluster: SimulatedCluster, rule: Rule, status: int, words: str, dry_run: bool
) -> None:
    with cluster.server.admission.applied(rule):
        error = await refusal(cluster, dry_run=dry_run)

    assert error.status == status
    assert words in str(error)
    assert cluster.server.documents(PODS) == []


async def test_a_rule_concerns_its_own_kinds_only(cluster: SimulatedCluster) -> None:
    claim = {"metadata": {"name": "claim"}, "spec": {}}
    with cluster.server.admission.applied(DenyingPolicy(PODS)):
        await cluster.client("test").create(CLAIM_RESOURCE, claim, WORKER_NAMESPACE)

    assert len(cluster.server.documents(CLAIMS)) == 1


async def test_a_webhook_may_not_support_dry_runs(cluster: SimulatedCluster) -> None:
    with cluster.server.admission.applied(DenyingWebhook(PODS, supports_dry_run=False)):
        assert "does not support dry run" in str(await refusal(cluster, dry_run=True))
        assert "denied the request" in str(await refusal(cluster))


async def test_a_dry_run_passes_all_checks_and_stores_nothing(cluster: SimulatedCluster) -> None:
    client = cluster.client("test")
    answer = await client.create(POD_RESOURCE, pod(), WORKER_NAMESPACE, dry_run=True)
    assert answer.metadata.name == "pod"
    assert cluster.server.documents(PODS) == []

    await client.create(POD_RESOURCE, pod(), WORKER_NAMESPACE)
    assert "already exists" in str(await refusal(cluster, dry_run=True))


async def test_a_quota_fills_and_relents_a_moment_after_an_object_is_gone(cluster: SimulatedCluster) -> None:
    client = cluster.client("test")
    quota = Quota(PODS, WORKER_NAMESPACE, hard=1)
    cluster.quota_controller.add(quota)
    await client.create(POD_RESOURCE, pod("other"), WORKER_NAMESPACE, dry_run=True)
    await client.create(POD_RESOURCE, pod("first"), WORKER_NAMESPACE)
    error = await refusal(cluster)
    assert isinstance(error, Forbidden)
    assert "exceeded quota: rule-of-the-owner, requested: count/pods=1, used: count/pods=1" in str(error)

    await client.delete(POD_RESOURCE, "first", WORKER_NAMESPACE)
    assert quota.used == 1
    await anyio.sleep(2)
    await client.create(POD_RESOURCE, pod(), WORKER_NAMESPACE)

    cluster.quota_controller.remove(quota)
    await client.create(POD_RESOURCE, pod("second"), WORKER_NAMESPACE)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (mutations.overhead(memory="1Gi"), {"overhead": {"memory": "1Gi"}}),
        (mutations.scheduler_name("other"), {"schedulerName": "other"}),
        (mutations.active_deadline(60), {"activeDeadlineSeconds": 60}),
        (mutations.node_selector({"zone": "a"}), {"nodeSelector": {"zone": "a"}}),
        (mutations.scheduling_gate("example.com/hold"), {"schedulingGates": [{"name": "example.com/hold"}]}),
        (
            mutations.toleration("gpu", effect="NoSchedule"),
            {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]},
        ),
        (
            mutations.sidecar("proxy"),
            {"initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}]},
        ),
        (
            mutations.claim_in_front("net", "claim-net"),
            {"resourceClaims": [{"name": "net", "resourceClaimName": "claim-net"}]},
        ),
        (
            mutations.container("agent", ports=[9100], first=True),
            {
                "containers": [
                    {
                        "name": "agent",
                        "image": "agent:1",
                        "ports": [{"containerPort": 9100, "hostPort": 9100}],
                    },
                    {"name": "worker", "image": "worker:1"},
                ]
            },
        ),
        (
            mutations.default_requests(memory="1Gi"),
            {
                "containers": [
                    {"name": "worker", "image": "worker:1", "resources": {"requests": {"memory": "1Gi"}}}
                ]
            },
        ),
    ],
)
async def test_a_rule_changes_new_pods(
    cluster: SimulatedCluster, edit: mutations.Edit, expected: Mapping[str, object]
) -> None:
    with cluster.server.admission.applied(ChangedPods(edit)):
        await cluster.client("test").create(POD_RESOURCE, pod(), WORKER_NAMESPACE)

    spec = cluster.server.documents(PODS)[0]["spec"]
    assert {name: spec.get(name) for name in expected} == expected


async def test_a_gated_pod_says_so_and_starts_when_its_gates_are_removed(cluster: SimulatedCluster) -> None:
    cluster.fleet.add_nodes(1)
    with cluster.server.admission.applied(ChangedPods(mutations.scheduling_gate("example.com/hold"))):
        await cluster.client("test").create(POD_RESOURCE, pod(), WORKER_NAMESPACE)
    await cluster.settle()
    status = cluster.server.documents(PODS)[0]["status"]
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
        ("PodScheduled", "SchedulingGated")
    ]

    cluster.server.patch(PODS, "pod", WORKER_NAMESPACE, {"spec": {"schedulingGates": None}})
    await cluster.settle()
    assert cluster.server.documents(PODS)[0]["status"]["phase"] == "Running"
