"""Tests of the documents of a worker's Pod and claim."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api.claim_document import claim_document
from controller.api.requests import InvalidWorkloadError, PlacementRequests
from controller.api.status import Assignment
from controller.api.worker_pod_document import node_affinity, pod_document
from placement.types import PreferredNode
from tests.controller.api.test_template_rules import JSON
from tests.controller.build import NAMESPACE, Document, container, template, workload

ASSIGNMENT = Assignment("claim-a-0a1b2c3d", "assignment-1")


def document(template_: Document, **spec: Any) -> Document:
    return pod_document(workload("a", template=template_, **spec), ASSIGNMENT, ())


def env_of(container_: Document) -> list[tuple[str, Any]]:
    return [(variable["name"], variable.get("value")) for variable in container_["env"]]


VARIABLES = [
    ("OPEN_RL_TIME_SLICE_GROUP", "claim-a-0a1b2c3d"),
    ("OPEN_RL_CLAIM_LEDGER", "ledger-a-0a1b2c3d"),
    ("OPEN_RL_ASSIGNMENT_ID", "assignment-1"),
]


def test_the_name_namespace_and_owner_of_a_pod() -> None:
    made = document(template())
    assert (made["apiVersion"], made["kind"]) == ("v1", "Pod")
    assert made["metadata"]["name"] == "orw-a"
    assert made["metadata"]["namespace"] == NAMESPACE
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "openrl.io/v1alpha1",
            "kind": "Workload",
            "name": "a",
            "uid": "uid-a",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_our_labels_override_those_of_the_template() -> None:
    labels = {"app": "mine", "openrl.io/claim": "mine", "team": "rl"}
    annotations = {"note": "kept", "openrl.io/claim": "kept too"}
    made = document(template() | {"metadata": {"labels": labels, "annotations": annotations, "name": "no"}})
    assert made["metadata"]["name"] == "orw-a"
    assert made["metadata"]["annotations"] == annotations | {"openrl.io/workload": "a/uid-a"}
    assert made["metadata"]["labels"] == {
        "team": "rl",
        "app": "open-rl-trainer-worker",
        "openrl.io/claim": "claim-a-0a1b2c3d",
        "openrl.io/worker": "a",
        "openrl.io/role": "trainer",
        "accel-timeslicer": "true",
        "timeslice.io/group": "claim-a-0a1b2c3d",
        "timeslice.io/owner": "a",
        "timeslice.io/job-id": "a",
    }


def test_the_owner_label_is_derived_from_the_owner() -> None:
    assert document(template(), ownerID="Team A")["metadata"]["labels"]["timeslice.io/owner"] == "team-a"


def test_only_the_worker_container_gets_the_device_and_the_variables() -> None:
    side = container("side", env=[{"name": "A", "value": "1"}])
    made = document(
        template(side, container("main"), initContainers=[container("init")]), workerContainerName="main"
    )
    spec = made["spec"]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "claim-a-0a1b2c3d"}]
    assert spec["containers"][0] == side
    assert spec["initContainers"] == [container("init")]
    main = spec["containers"][1]
    assert main["resources"] == {"requests": {"memory": "1Gi", "cpu": "100m"}, "claims": [{"name": "gpu"}]}
    assert env_of(main) == VARIABLES


def test_our_variables_override_those_of_the_template() -> None:
    source = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    given_ = [
        {"name": "B", "value": "2"},
        {"name": "OPEN_RL_CLAIM_LEDGER", "value": "forged"},
        source,
        {"name": "OPEN_RL_ASSIGNMENT_ID", "value": "forged"},
        {"name": "OPEN_RL_ASSIGNMENT_ID", "value": "forged again"},
        {"name": "A", "value": "1"},
    ]
    (worker,) = document(template(container(env=given_)))["spec"]["containers"]
    assert env_of(worker) == [("B", "2"), ("NODE", None), ("A", "1"), *VARIABLES]
    assert source in worker["env"]


def test_the_template_is_copied() -> None:
    labels = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    worker = workload("a", template=template(container(env=[]), volumes=[{"name": "v"}]) | labels)
    before = copy.deepcopy(worker.spec.template)
    made = pod_document(worker, ASSIGNMENT, ())
    made["spec"]["volumes"][0]["name"] = "changed"
    made["metadata"]["annotations"]["c"] = "changed"
    assert worker.spec.template == before


def test_other_fields_of_the_template_are_kept() -> None:
    kept = {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}], "novelty": {"a": [1]}}
    spec = document(template(**kept))["spec"]
    assert {field: spec[field] for field in kept} == kept
    assert set(spec) == {*kept, "containers", "resourceClaims", "affinity"}


def test_the_required_node_affinity() -> None:
    """The role's label is `true`, or the node has no role label."""
    enabled = {"key": "openrl.io/enabled", "operator": "In", "values": ["true"]}
    affinity = node_affinity("sampler", ())
    assert affinity == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        enabled,
                        {"key": "openrl.io/sampler", "operator": "In", "values": ["true"]},
                    ]
                },
                {
                    "matchExpressions": [
                        enabled,
                        {"key": "openrl.io/trainer", "operator": "DoesNotExist"},
                        {"key": "openrl.io/sampler", "operator": "DoesNotExist"},
                    ]
                },
            ]
        }
    }
    assert pod_document(workload(role="sampler"), ASSIGNMENT, ())["spec"]["affinity"] == {
        "nodeAffinity": affinity
    }


def test_a_required_node_is_part_of_each_term() -> None:
    """The terms are alternatives: one without the node would admit every node."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    anywhere = node_affinity("sampler", ())[required]["nodeSelectorTerms"]
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    there = node_affinity("sampler", (), "node-1")[required]["nodeSelectorTerms"]
    assert there == [term | named for term in anywhere]


def test_the_preferred_node_affinity() -> None:
    made = pod_document(workload(), ASSIGNMENT, [PreferredNode("n-2", 100), PreferredNode("n-1", 50)])
    affinity = made["spec"]["affinity"]["nodeAffinity"]
    assert affinity["preferredDuringSchedulingIgnoredDuringExecution"] == [
        {
            "weight": weight,
            "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
        }
        for node, weight in (("n-2", 100), ("n-1", 50))
    ]


def test_a_claim_is_owned_by_its_ledger() -> None:
    requests = [{"name": "gpu", "firstAvailable": []}]
    assert claim_document("claim-a-0a1b2c3d", NAMESPACE, "uid-7", requests) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "claim-a-0a1b2c3d",
            "namespace": NAMESPACE,
            "labels": {"openrl.io/managed": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "openrl.io/v1alpha1",
                    "kind": "ClaimLedger",
                    "name": "ledger-a-0a1b2c3d",
                    "uid": "uid-7",
                }
            ],
        },
        "spec": {"devices": {"requests": requests}},
    }


@given(worker=st.dictionaries(st.sampled_from(["env", "resources", "restartPolicy"]), JSON), metadata=JSON)
@settings(deadline=None)
def test_every_valid_template_yields_a_pod(worker: Document, metadata: Any) -> None:
    accepted = workload(template=template(worker | {"name": "worker"}) | {"metadata": metadata})
    try:
        PlacementRequests(0, "gpu.example.com").validate(accepted)
    except InvalidWorkloadError:
        return
    pod_document(accepted, ASSIGNMENT, ())


@pytest.mark.parametrize("nothing", [None, {}])
def test_optional_parts_of_a_template_may_be_empty(nothing: Any) -> None:
    made = document(
        template({"name": "worker", "resources": nothing, "env": None}) | {"metadata": {"labels": nothing}}
    )
    assert set(made["metadata"]["annotations"]) == {"openrl.io/workload"}
    assert made["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}
