"""Tests of the conversion of API objects to the types of `placement`."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api import convert
from controller.api.pods import effective_request_of
from ledger.state import Seat
from placement.tolerations import untolerated
from placement.types import GIB, Amounts, Role, Taint, TaintEffect, Toleration
from tests.controller.build import (
    DRIVER,
    Document,
    allocation,
    claim,
    container,
    device,
    node,
    node_selector,
    pod,
    slice_of,
)

TRAINER, SAMPLER = "openrl.io/trainer", "openrl.io/sampler"


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        ({}, {Role.TRAINER, Role.SAMPLER}),
        ({TRAINER: "true"}, {Role.TRAINER}),
        ({SAMPLER: "true"}, {Role.SAMPLER}),
        ({TRAINER: "true", SAMPLER: "true"}, {Role.TRAINER, Role.SAMPLER}),
        ({TRAINER: "true", SAMPLER: "false"}, {Role.TRAINER}),
        ({TRAINER: "True", SAMPLER: "true"}, {Role.SAMPLER}),
    ],
)
def test_the_roles_of_a_node_follow_from_its_labels(labels: dict[str, str], roles: set[Role]) -> None:
    found = convert.node(node(labels=labels))
    assert found.enabled
    assert found.roles == roles


@pytest.mark.parametrize("labels", [{TRAINER: "false"}, {SAMPLER: ""}, {TRAINER: "no", SAMPLER: "yes"}])
def test_a_node_with_only_false_role_labels_accepts_no_role(labels: dict[str, str]) -> None:
    """The required node affinity excludes it too."""
    found = convert.node(node(labels=labels))
    assert found.enabled
    assert found.roles == frozenset()


@pytest.mark.parametrize("value", ["false", "True", ""])
def test_a_node_is_enabled_only_by_the_value_true(value: str) -> None:
    assert not convert.node(node(labels={"openrl.io/enabled": value})).enabled


def test_a_node_without_allocatable_memory_has_no_memory_limit() -> None:
    found = convert.node(node(allocatable={"cpu": "500m", "pods": "10"}))
    assert found.allocatable == Amounts(None, 500, 10)


def test_an_invalid_quantity_of_a_node_counts_as_nothing() -> None:
    odd = convert.node(node(allocatable={"memory": "x", "cpu": "1e", "pods": "1e99999"}))
    assert odd.allocatable == Amounts(0, 0, 0)


def test_quantities_may_be_numbers() -> None:
    found = convert.node(node(allocatable={"memory": 1024, "cpu": 1.5, "pods": 3}))
    assert found.allocatable == Amounts(1024, 1500, 3)


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "MemoryPressure", "status": "True"}], False),
        ([{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}], True),
    ],
)
def test_a_node_is_ready_only_with_a_true_ready_condition(conditions: list[Document], *, ready: bool) -> None:
    assert convert.node(node(conditions=conditions)).ready is ready


def test_cordon_and_taints_of_a_node() -> None:
    known = {"key": "a", "value": "b", "effect": "NoSchedule"}
    unknown = {"key": "a", "effect": "NoSomethingElse"}
    found = convert.node(node(spec={"unschedulable": True, "taints": [known, unknown]}))
    assert found.cordoned
    assert found.taints == (Taint("a", "b", TaintEffect.NO_SCHEDULE),)


def test_a_heartbeat_does_not_change_the_status() -> None:
    heartbeats = [[{"type": "Ready", "status": "True", "lastHeartbeatTime": time}] for time in ("1", "2")]
    first, second = (node(conditions=heartbeat) for heartbeat in heartbeats)
    assert first.status == second.status


@pytest.mark.parametrize(
    ("item", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "value": "b"}, True),
        ({"key": "a", "operator": "", "value": "b", "effect": ""}, True),
        ({"key": "a", "value": "b", "effect": "NoSchedule"}, True),
        ({"key": "a", "value": "c"}, False),
        ({"key": "a", "value": "b", "effect": "NoExecute"}, False),
        ({"key": "a", "value": "b", "effect": "NoSomethingElse"}, False),
        ({"key": "a", "operator": "Exists", "effect": "NoSomethingElse"}, False),
        ({"key": "a", "operator": "Lt", "value": "b"}, False),
    ],
)
def test_what_a_toleration_tolerates(item: Document, *, tolerated: bool) -> None:
    taint = Taint("a", "b", TaintEffect.NO_SCHEDULE)
    assert untolerated([taint], convert.template_tolerations([item])) is not tolerated


@pytest.mark.parametrize("junk", [7, "x", {}, [7], [[]], [None], [{"key": 7}], [{"operator": None}]])
def test_an_invalid_list_of_tolerations_is_a_value_error(junk: object) -> None:
    with pytest.raises(ValueError):
        convert.template_tolerations(junk)


def test_a_slice_of_one_node() -> None:
    tainted = device("gpu-1", 1 << 30, taints=[{"key": "broken", "effect": "NoExecute"}])
    found = convert.device_slice(slice_of("n", device("gpu-0", "79.65Gi"), tainted, device("nic", None)))
    assert found is not None
    assert (found.node, found.pool, found.generation, found.slice_count) == ("n", "n", 1, 1)
    memories = [d.memory_bytes for d in found.devices]
    assert memories == [-(-7965 * GIB // 100), GIB, None]
    assert found.devices[1].taints == (Taint("broken", "", TaintEffect.NO_EXECUTE),)


@pytest.mark.parametrize(
    ("selection", "name"),
    [
        ({"allNodes": True}, "allNodes"),
        ({"perDeviceNodeSelection": True}, "perDeviceNodeSelection"),
        ({"nodeSelector": {"nodeSelectorTerms": []}}, "nodeSelector"),
    ],
)
def test_a_slice_without_a_single_node_names_its_selection(selection: dict[str, Any], name: str) -> None:
    found = convert.device_slice(slice_of("n", nodeName=None, **selection))
    assert (found.node, found.node_selection) == ("", name)


def test_an_allocated_claim() -> None:
    tolerations = [{"key": "a", "operator": "Exists", "effect": "None"}, {"effect": "Novel"}]
    obj = claim("claim-x", allocated=allocation("n", "gpu-3", tolerations=tolerations))
    found = convert.claim(obj, "uid-ledger-x")
    assert (found.name, found.uid, found.allocated, found.node, found.joinable) == (
        "claim-x",
        "uid-claim-x",
        True,
        "n",
        True,
    )
    (row,) = found.devices
    assert (row.id.driver, row.id.pool, row.id.device, row.admin_access) == (DRIVER, "n", "gpu-3", False)
    assert row.tolerations == (Toleration("a", exists=True, value="", effect=TaintEffect.NONE),)


def test_admin_access_is_converted() -> None:
    (row,) = convert.claim(claim(allocated=allocation(adminAccess=True)), "").devices
    assert row.admin_access


@pytest.mark.parametrize(
    ("ledger_uid", "meta"),
    [
        ("", {}),
        ("uid-of-another", {}),
        ("uid-ledger-a", {"ownerReferences": []}),
        ("", {"ownerReferences": []}),
        ("uid-ledger-a", {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_claim_without_its_ledger_or_in_deletion_is_not_joinable(ledger_uid: str, meta: Document) -> None:
    assert not convert.claim(claim(meta=meta, allocated=allocation()), ledger_uid).joinable


IN, FIELD = {"operator": "In", "values": ["n"]}, {"key": "metadata.name"}
SELECTORS: dict[str, tuple[Any, str]] = {
    "none": (None, ""),
    "the node's name": (node_selector("n"), "n"),
    "two nodes": ({"nodeSelectorTerms": [{"matchFields": [FIELD | IN | {"values": ["n", "m"]}]}]}, ""),
    "not one node": (
        {"nodeSelectorTerms": [{"matchFields": [FIELD | IN | {"operator": "NotIn"}]}]},
        "",
    ),
    "another field": ({"nodeSelectorTerms": [{"matchFields": [IN | {"key": "metadata.uid"}]}]}, ""),
    "a label": ({"nodeSelectorTerms": [{"matchExpressions": [IN | {"key": "metadata.name"}]}]}, ""),
    "a label and the name": (
        {"nodeSelectorTerms": [{"matchExpressions": [IN | {"key": "zone"}], "matchFields": [FIELD | IN]}]},
        "n",
    ),
    "no term": ({"nodeSelectorTerms": []}, ""),
}


@pytest.mark.parametrize(("selector", "name"), SELECTORS.values(), ids=SELECTORS)
def test_the_node_of_an_allocation(selector: Any, name: str) -> None:
    assert convert.claim_node(claim(allocated=allocation() | {"nodeSelector": selector})) == name


@pytest.mark.parametrize(
    ("request_", "memory_bytes"), [("60Gi", 60 * GIB), ("1024", 1024), ("", 0), ("what?", 0)]
)
def test_the_host_request_of_a_seat(request_: str, memory_bytes: int) -> None:
    seat = Seat(workload="a", workload_uid="u", assignment_id="x", owner_id="", host_request=request_)
    info = convert.seat_info(seat)
    assert info.host == Amounts(memory_bytes, 0)
    known = Amounts(GIB, 250)
    assert convert.seat_info(seat, known).host == known
    assert (info.worker, info.worker_uid, info.owner_key) == ("a", "u", "a")


def test_the_effective_request_of_a_pod() -> None:
    sidecar = container("sidecar", "1Gi", 0.5, restartPolicy="Always")
    limited = {"name": "b", "resources": {"limits": {"memory": 1024, "cpu": "1"}}}
    found = convert.pod_use(
        pod(
            nodeName="n",
            containers=[container(memory="2Gi", cpu="1"), limited],
            initContainers=[sidecar],
            overhead={"memory": "1Mi"},
        )
    )
    assert found.node == "n"
    assert found.requests == Amounts(3 * GIB + 1024 + (1 << 20), 2500)


def test_a_template_has_the_effective_request_of_its_pod() -> None:
    spec: Document = {"containers": [container(memory="2Gi")], "initContainers": [container("i", "5Gi")]}
    assert convert.template_request(spec) == effective_request_of(pod(**spec)) == Amounts(5 * GIB, 100)
    assert convert.template_request({"containers": [], "unknown": 1}) == Amounts(0, 0)
