"""Tests of template validation, including malformed documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api.reasons import ReasonCode
from controller.api.requests import InvalidWorkloadError, PlacementRequests
from tests.controller.build import Document, container, template, workload

SPEC = "template.spec"
WORKER = f"{SPEC}.containers[0]"


def violation(document: object, **spec: Any) -> str:
    """Return the violation of a template, empty for a valid one."""
    try:
        PlacementRequests(0, "gpu.example.com").validate(workload(template=document, **spec))
    except InvalidWorkloadError as error:
        return error.detail if error.code is ReasonCode.INVALID_TEMPLATE else f"an error in the spec: {error}"
    return ""


def with_resources(**resources: Any) -> dict[str, Any]:
    return {"name": "worker", "resources": resources}


FORBIDDEN = {
    "a node": (template(nodeName="n"), f"{SPEC}.nodeName: "),
    "a node selector": (template(nodeSelector={"a": "b"}), f"{SPEC}.nodeSelector: "),
    "affinity": (template(affinity={"nodeAffinity": {}}), f"{SPEC}.affinity: "),
    "claims of its own": (template(resourceClaims=[{"name": "x"}]), f"{SPEC}.resourceClaims: "),
    "a container's claims": (
        template(with_resources(claims=[{"name": "gpu"}])),
        f"{WORKER}.resources.claims: ",
    ),
    "an init container's claims": (
        template(initContainers=[with_resources(claims=[{"name": "gpu"}])]),
        f"{SPEC}.initContainers[0].resources.claims: ",
    ),
    "a requested extended resource": (
        template(with_resources(requests={"nvidia.com/gpu": 1})),
        f"{WORKER}.resources.requests: nvidia.com/gpu ",
    ),
    "a limited extended resource": (
        template(container(), with_resources(limits={"example.com/x": "1"}) | {"name": "sidecar"}),
        f"{SPEC}.containers[1].resources.limits: example.com/x ",
    ),
    "an init container's extended resource": (
        template(initContainers=[with_resources(limits={"example.com/x": "1"})]),
        f"{SPEC}.initContainers[0].resources.limits: example.com/x ",
    ),
    "the group variable": (
        template(container(env=[{"name": "OPEN_RL_TIME_SLICE_GROUP", "value": "x"}])),
        f"{WORKER}.env: OPEN_RL_TIME_SLICE_GROUP ",
    ),
    "an init container's group variable": (
        template(initContainers=[container("init", env=[{"name": "OPEN_RL_TIME_SLICE_GROUP"}])]),
        f"{SPEC}.initContainers[0].env: OPEN_RL_TIME_SLICE_GROUP ",
    ),
    "no container of the worker's name": (template(container("other")), f"{SPEC}.containers: none is named"),
    "the worker as an init container": (
        template(container("other"), initContainers=[container()]),
        f"{SPEC}.containers: none is named",
    ),
    "the controller's ServiceAccount": (
        template(serviceAccountName="open-rl-scheduler"),
        f"{SPEC}.serviceAccountName: 'open-rl-scheduler'",
    ),
    "the controller's ServiceAccount, by the old field": (
        template(serviceAccount="open-rl-scheduler"),
        f"{SPEC}.serviceAccount: 'open-rl-scheduler'",
    ),
}


@pytest.mark.parametrize(("document", "sentence"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_forbidden_field_is_named(document: object, sentence: str) -> None:
    assert violation(document).startswith(sentence)


ALLOWED = {
    "overwritten variables": template(
        container(env=[{"name": "OPEN_RL_CLAIM_LEDGER", "value": "x"}, {"name": "OPEN_RL_ASSIGNMENT_ID"}])
    ),
    "core resources": template(
        with_resources(
            requests={"memory": "1Gi", "hugepages-2Mi": "4Mi"}, limits={"ephemeral-storage": "1Gi"}
        )
    ),
    "tolerations, overhead, another account": template(
        tolerations=[{"operator": "Exists"}], overhead={"cpu": 1}, serviceAccountName="mine"
    ),
    "unknown fields": template(container(novelty={"a": [1]}), novelty=True),
    "nulls, which the API server treats as absent": template(
        {"name": "worker", "resources": None, "env": None, "restartPolicy": None},
        {
            "name": "b",
            "env": [{"name": "EMPTY", "value": None}],
            "resources": {"requests": None, "limits": None},
        },
        initContainers=None,
        tolerations=None,
        overhead=None,
        resources={"requests": {"cpu": None}},
        affinity=None,
        nodeName=None,
        resourceClaims=None,
    )
    | {"metadata": {"labels": None, "annotations": None}},
}


@pytest.mark.parametrize("document", ALLOWED.values(), ids=ALLOWED)
def test_everything_else_is_allowed(document: object) -> None:
    assert violation(document) == ""


def test_another_container_may_be_the_worker() -> None:
    assert violation(template(container("main")), workerContainerName="main") == ""
    assert violation(template(container()), workerContainerName="main").endswith("(spec.workerContainerName)")


JUNK: tuple[Any, ...] = (
    7,
    1.5,
    True,
    "text",
    ["x"],
    [None],
    [7],
    {"a": 7},
    {"name": 7},
    [{}],
    [{"name": {}}],
)
WHERE: dict[str, Callable[[Any], Document]] = {
    "spec": lambda junk: {"spec": junk},
    "metadata": lambda junk: template() | {"metadata": junk},
    "labels": lambda junk: template() | {"metadata": {"labels": junk}},
    "containers": lambda junk: {"spec": {"containers": junk}},
    "a container": lambda junk: template(container(), junk),
    "init containers": lambda junk: template(initContainers=junk),
    "tolerations": lambda junk: template(tolerations=junk),
    "overhead": lambda junk: template(overhead=junk),
    "Pod resources": lambda junk: template(resources=junk),
    "resources": lambda junk: template({"name": "worker", "resources": junk}),
    "requests": lambda junk: template({"name": "worker", "resources": {"requests": junk}}),
    "limits": lambda junk: template({"name": "worker", "resources": {"limits": junk}}),
    "memory": lambda junk: template({"name": "worker", "resources": {"requests": {"memory": junk}}}),
    "env": lambda junk: template({"name": "worker", "env": junk}),
    "a variable": lambda junk: template({"name": "worker", "env": [{"name": "A", "value": junk}]}),
}


@pytest.mark.parametrize("where", WHERE)
def test_a_malformed_field_is_a_violation_or_harmless(where: str) -> None:
    for junk in JUNK:
        violation(WHERE[where](junk))
    assert violation(WHERE[where](["x"] if where != "labels" else 7)), "a list of text is invalid everywhere"


def test_a_template_needs_a_spec_and_containers() -> None:
    absent: tuple[Document, ...] = ({}, {"spec": None})
    for document in absent:
        assert violation(document) == "template.spec: is required"
    empty: tuple[Document, ...] = ({}, {"containers": None}, {"containers": []})
    for spec in empty:
        assert violation({"spec": spec}).startswith(f"{SPEC}.containers: none is named 'worker'")
    assert violation({"spec": {"containers": [None]}}) == f"{WORKER}: must be an object"


FIELDS = (
    *("spec", "metadata", "labels", "containers", "initContainers", "name", "env", "value", "resources"),
    *("requests", "limits", "claims", "memory", "tolerations", "overhead", "nodeName"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    spec=st.dictionaries(st.sampled_from(["containers", "initContainers", "tolerations"]), JSON), more=JSON
)
@settings(deadline=None)
def test_no_document_causes_another_error(spec: dict[str, Any], more: Any) -> None:
    violation({"spec": spec, "metadata": more})
    violation(template({"name": "worker", "resources": more, "env": spec.get("containers")}))
