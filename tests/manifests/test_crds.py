"""Tests of the two schemas against contract §2.

`e2e/installation/test_manifests.py` tests the rules and field preservation with an API server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.api.reasons import MESSAGE_MAX_CHARACTERS, Phase
from controller.api.workload import WORKLOADS
from ledger.claim_names import CLAIM_LABEL
from placement.types import Role
from tests.manifests.tree import MANIFESTS, Object, load

WORKLOAD = load(MANIFESTS / "crds" / "workloads.yaml")
LEDGER = load(MANIFESTS / "crds" / "claimledgers.yaml")
KINDS = pytest.mark.parametrize("definition", [WORKLOAD, LEDGER], ids=["Workload", "ClaimLedger"])


def version(definition: Object) -> Object:
    (only,) = definition["spec"]["versions"]
    assert isinstance(only, dict)
    return only


def schema(definition: Object, *path: str) -> Object:
    node: Object = version(definition)["schema"]["openAPIV3Schema"]
    for name in path:
        node = node["items"] if name == "[]" else node["properties"][name]
    return node


def fields(node: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """Yield a node and all nodes below it, by path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from fields(child, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if key in node:
            yield from fields(node[key], path + suffix)


def paths_where(definition: Object, key: str) -> dict[str, object]:
    return {path: node[key] for path, node in fields(schema(definition)) if key in node}


@KINDS
def test_names_are_those_of_the_contract(definition: Object) -> None:
    spec = definition["spec"]
    names = spec["names"]

    assert definition["metadata"]["name"] == f"{names['plural']}.{spec['group']}"
    assert spec["group"] == CLAIM_LABEL.split("/")[0]
    assert spec["scope"] == "Namespaced"
    assert version(definition)["name"] == "v1alpha1"
    assert names["singular"] == names["kind"].lower()


def test_short_names() -> None:
    assert WORKLOAD["spec"]["names"]["shortNames"] == ["owl"]
    assert LEDGER["spec"]["names"]["shortNames"] == ["ocl"]


def test_the_controller_reads_the_kind_that_is_installed() -> None:
    spec = WORKLOAD["spec"]

    assert (WORKLOADS.group, WORKLOADS.plural, WORKLOADS.kind) == (
        spec["group"], spec["names"]["plural"], spec["names"]["kind"],
    )  # fmt: skip
    assert version(WORKLOAD)["name"] == WORKLOADS.version


def test_only_workloads_have_a_status_subresource() -> None:
    assert version(WORKLOAD)["subresources"] == {"status": {}}
    assert "subresources" not in version(LEDGER)


def columns(definition: Object) -> list[tuple[str, str, int]]:
    return [
        (column["name"], column["jsonPath"], column.get("priority", 0))
        for column in version(definition)["additionalPrinterColumns"]
    ]


def test_columns_of_workloads() -> None:
    assert columns(WORKLOAD) == [
        ("Role", ".spec.role", 0),
        ("Owner", ".spec.ownerID", 0),
        ("GPUs", ".status.deviceCount", 0),
        ("MemEach", ".status.memoryPerDevice", 0),
        ("Phase", ".status.phase", 0),
        ("Claim", ".status.claimName", 0),
        ("Node", ".status.nodeName", 0),
        ("Age", ".metadata.creationTimestamp", 0),
        ("Reason", ".status.reason", 1),
    ]


def test_columns_of_ledgers() -> None:
    assert columns(LEDGER) == [("Claim", ".spec.claimName", 0), ("Age", ".metadata.creationTimestamp", 0)]


@KINDS
def test_columns_show_fields_that_exist(definition: Object) -> None:
    known = {path for path, _ in fields(schema(definition))}

    for name, path, _ in columns(definition):
        assert path in known or path == ".metadata.creationTimestamp", name


@KINDS
def test_every_field_is_described(definition: Object) -> None:
    bare = [path for path, node in fields(schema(definition)) if not node.get("description", "").strip()]

    assert bare == [".metadata"], "the API server allows none there and has its own"


@KINDS
def test_descriptions_are_sentences(definition: Object) -> None:
    for path, text in paths_where(definition, "description").items():
        assert str(text).endswith("."), path
        assert str(text)[0].isupper(), path


def test_the_required_fields_of_a_workload_are_those_of_the_contract() -> None:
    assert paths_where(WORKLOAD, "required") == {
        "": ["spec"],
        ".spec": ["role", "modelID", "accelerator", "template"],
        ".spec.accelerator": ["memory"],
        ".spec.template": ["spec"],
        ".spec.template.spec": ["containers"],
        ".status.conditions[]": ["type"],
    }


def test_the_required_fields_of_a_ledger_are_those_of_the_contract() -> None:
    assert paths_where(LEDGER, "required") == {
        "": ["spec"],
        ".spec": ["claimName"],
        ".spec.seats[]": ["workload"],
    }


def test_a_ledger_above_the_limit_can_still_shrink() -> None:
    assert paths_where(LEDGER, "maxItems") == {}
    assert paths_where(LEDGER, "x-kubernetes-validations") == {}


def test_defaults() -> None:
    assert paths_where(WORKLOAD, "default") == {
        ".spec.exclusive": True,
        ".spec.accelerator.mode": "SingleGPU",
        ".spec.accelerator.type": "GPU",
        ".spec.workerContainerName": "worker",
    }
    assert paths_where(LEDGER, "default") == {}


def test_enumerations() -> None:
    assert paths_where(WORKLOAD, "enum") == {
        ".spec.role": [role.value for role in Role],
        ".spec.trainingKind": ["fft", "lora"],
        ".spec.accelerator.mode": ["SingleGPU", "MultiGPU"],
        ".spec.accelerator.type": ["GPU", "TPU"],
        ".status.phase": [phase.value for phase in Phase],
        ".status.conditions[].status": ["True", "False", "Unknown"],
    }


def test_bounds() -> None:
    assert paths_where(WORKLOAD, "minLength") == {".spec.modelID": 1}
    assert paths_where(WORKLOAD, "maxLength") == {
        ".spec.modelID": 253,
        ".spec.ownerID": 253,
        ".spec.workerContainerName": 63,
        ".status.conditions[].message": MESSAGE_MAX_CHARACTERS,
    }
    assert paths_where(WORKLOAD, "minimum") == {".spec.accelerator.devices": 2, ".status.restarts": 0}


def test_unknown_fields_are_preserved() -> None:
    assert set(paths_where(WORKLOAD, "x-kubernetes-preserve-unknown-fields")) == {
        ".spec.accelerator",
        ".spec.accelerator.attributes{}[]",
        ".spec.template",
        ".spec.template.metadata",
        ".spec.template.spec",
        ".spec.template.spec.containers[]",
        ".spec.template.spec.nodeSelector",
        ".spec.template.spec.affinity",
        ".spec.template.spec.resourceClaims[]",
        ".status",
        ".status.conditions[]",
    }
    assert set(paths_where(LEDGER, "x-kubernetes-preserve-unknown-fields")) == {"", ".spec", ".spec.seats[]"}


def test_lists_are_merged_by_key() -> None:
    key = "x-kubernetes-list-map-keys"

    assert paths_where(WORKLOAD, key) == {".status.conditions": ["type"]}
    assert paths_where(LEDGER, key) == {".spec.seats": ["workload"]}


def test_every_field_of_the_spec_is_immutable() -> None:
    rules = {
        path: [rule for rule in node.get("x-kubernetes-validations", []) if "oldSelf" in rule["rule"]]
        for path, node in fields(schema(WORKLOAD))
    }
    guarded = {rule["fieldPath"].removeprefix(".") for rule in rules[".spec"]}

    for name in schema(WORKLOAD, "spec")["properties"]:
        path = ".spec.template.spec" if name == "template" else f".spec.{name}"
        # The rule of a field does not run when the field is added or removed.
        always = name in schema(WORKLOAD, "spec")["required"] or "default" in schema(WORKLOAD, "spec", name)
        assert rules[path] if always else name in guarded, path


def test_forbidden_fields_are_declared() -> None:
    node = schema(WORKLOAD, "spec", "template", "spec")
    forbidden = {
        rule["fieldPath"].removeprefix(".")
        for rule in node["x-kubernetes-validations"]
        if "fieldPath" in rule
    }

    assert forbidden == {"nodeName", "nodeSelector", "affinity", "resourceClaims"}
    assert forbidden < set(node["properties"])
