"""What `kubectl get` shows: columns and cells of each kind, and the other forms that a client may accept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from simulation.cluster.workloads import workload
from simulation.embedded.cluster import EmbeddedCluster
from simulation.embedded.printing.jsonpath import UnknownPath, compile_path
from simulation.embedded.printing.pods import human_duration
from tests.embedded.asking import NAMESPACE, PODS_PATH, TABLE, WORKLOADS_PATH, Asker, pod

EVENTS_PATH = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


def rows_of(table: Any, *, wide: bool = False) -> list[dict[str, Any]]:
    """The cells of each row by column."""
    assert table["kind"] == "Table"
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    return [
        {
            name: cell
            for (name, priority), cell in zip(columns, row["cells"], strict=True)
            if wide or not priority
        }
        for row in table["rows"]
    ]


@pytest.mark.anyio
async def test_our_kinds_have_the_columns_of_their_definitions(ask: Asker) -> None:
    await ask("POST", WORKLOADS_PATH, workload("worker", ownerID="team-a"))
    status = {"status": {"phase": "Pending", "deviceCount": 2, "reason": "WaitingForCapacity: full"}}
    await ask("PATCH", f"{WORKLOADS_PATH}/worker/status", status, content="application/merge-patch+json")

    table = (await ask("GET", WORKLOADS_PATH, accept=TABLE)).body

    (row,) = rows_of(table, wide=True)
    assert row.pop("Age").endswith("s")
    assert row == {
        "Name": "worker",
        "Role": "trainer",
        "Owner": "team-a",
        "GPUs": 2,
        "MemEach": None,
        "Phase": "Pending",
        "Claim": None,
        "Node": None,
        "Reason": "WaitingForCapacity: full",
    }
    assert "Reason" not in rows_of(table)[0]


@pytest.mark.anyio
async def test_nodes_claims_and_slices_say_in_a_word_how_they_are(
    cluster: EmbeddedCluster, ask: Asker
) -> None:
    cluster.fleet.add_nodes(2)
    cluster.fleet.cordon("gpu-node-0")
    cluster.fleet.set_ready("gpu-node-1", ready=False)
    claims = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
    await ask("POST", claims, {"metadata": {"name": "claim-a"}, "spec": {}})

    nodes = rows_of((await ask("GET", "/api/v1/nodes", accept=TABLE)).body, wide=True)
    slices = rows_of((await ask("GET", "/apis/resource.k8s.io/v1/resourceslices", accept=TABLE)).body)
    (claim,) = rows_of((await ask("GET", claims, accept=TABLE)).body)

    assert [row["Status"] for row in nodes] == ["Ready,SchedulingDisabled", "NotReady"]
    assert nodes[0]["Internal-IP"] == nodes[0]["Roles"] == "<none>"
    assert [(row["Node"], row["Driver"]) for row in slices] == [
        ("gpu-node-0", "gpu.nvidia.com"),
        ("gpu-node-1", "gpu.nvidia.com"),
    ]
    assert claim["State"] == "pending"


def one_container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"ready": "running" in state, "state": state}]}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "shown", "ready"),
    [
        ({"phase": "Pending"}, "Pending", "0/1"),
        ({"phase": "Running", **one_container(running={})}, "Running", "1/1"),
        ({"phase": "Pending", **one_container(waiting={"reason": "ErrImagePull"})}, "ErrImagePull", "0/1"),
        ({"phase": "Failed", **one_container(terminated={"reason": "Error"})}, "Error", "0/1"),
        ({"phase": "Failed", **one_container(terminated={"exitCode": 3})}, "ExitCode:3", "0/1"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted", "0/1"),
    ],
)
async def test_a_pod_is_what_its_containers_are_up_to(
    ask: Asker, status: dict[str, Any], shown: str, ready: str
) -> None:
    await ask("POST", PODS_PATH, pod())
    patch = {"status": status}
    await ask("PATCH", f"{PODS_PATH}/pod-a/status", patch, content="application/merge-patch+json")

    (row,) = rows_of((await ask("GET", PODS_PATH, accept=TABLE)).body)

    assert (row["Status"], row["Ready"]) == (shown, ready)


@pytest.mark.anyio
async def test_a_pod_that_is_being_deleted_is_terminating(ask: Asker) -> None:
    await ask("POST", PODS_PATH, pod(nodeName="nowhere"))
    await ask("DELETE", f"{PODS_PATH}/pod-a")

    (row,) = rows_of((await ask("GET", PODS_PATH, accept=TABLE)).body)

    assert row["Status"] == "Terminating"


@pytest.mark.anyio
async def test_events_are_there_under_both_names(ask: Asker) -> None:
    about = {"kind": "Workload", "name": "worker", "namespace": NAMESPACE, "uid": "u"}
    event = {
        "metadata": {"name": "event-a"},
        "type": "Warning",
        "reason": "Unschedulable",
        "note": "No room.",
        "regarding": about,
        "reportingController": "openrl.io/open-rl-scheduler",
        "reportingInstance": "host",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:05.000000Z"},
    }
    await ask("POST", EVENTS_PATH, event)
    old_path = f"/api/v1/namespaces/{NAMESPACE}/events"

    chosen = (await ask("GET", old_path, fieldSelector="involvedObject.name=worker,type=Warning")).body
    others = (await ask("GET", old_path, fieldSelector="involvedObject.name=another")).body
    (row,) = rows_of((await ask("GET", old_path, accept=TABLE)).body, wide=True)

    assert [item["message"] for item in chosen["items"]] == ["No room."]
    assert chosen["items"][0]["involvedObject"] == about
    assert others["items"] == []
    assert (row["Object"], row["Count"], row["Source"]) == (
        "workload/worker",
        3,
        "openrl.io/open-rl-scheduler, host",
    )
    assert (await ask("POST", old_path, event)).refused == (405, "MethodNotAllowed")


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["", "/pod-a"])
@pytest.mark.parametrize(
    ("include", "keys"), [("None", set()), ("Metadata", {"metadata"}), ("Object", {"spec"})]
)
async def test_a_row_carries_as_much_of_its_object_as_is_asked_for(
    ask: Asker, path: str, include: str, keys: set[str]
) -> None:
    await ask("POST", PODS_PATH, pod())

    table = (await ask("GET", f"{PODS_PATH}{path}", accept=TABLE, includeObject=include)).body

    assert keys <= set(table["rows"][0].get("object", {}))
    assert ("object" in table["rows"][0]) is bool(keys)


@pytest.mark.anyio
async def test_a_client_may_ask_for_metadata_only(ask: Asker) -> None:
    await ask("POST", PODS_PATH, pod())

    listed = (await ask("GET", PODS_PATH, accept=METADATA)).body

    assert listed["kind"] == "PartialObjectMetadataList"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
        (600, "10m"), (10799, "179m"), (10800, "3h"), (10860, "3h1m"), (28800, "8h"), (172799, "47h"),
        (172800, "2d"), (176400, "2d1h"), (691200, "8d"), (730 * 86400, "2y"), (731 * 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)  # fmt: skip
def test_an_age_has_two_units_at_most(seconds: int, text: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".a.b", 1),
        (".a.missing", None),
        (r".labels.x\.y/z", "w"),
        (".items[1].name", "two"),
        (".items[7].name", None),
        (".items[*].name", "one"),
        ('.items[?(@.name=="two")].size', 2),
        (".items[?(@.name == 'three')].size", None),
    ],
)
def test_a_path_finds_the_first_value(path: str, value: object) -> None:
    items = [{"name": "one", "size": 1}, {"name": "two", "size": 2}]
    document = {"a": {"b": 1}, "labels": {"x.y/z": "w"}, "items": items}

    assert compile_path(path)(document) == value


def test_a_path_of_another_form_is_refused_when_it_is_read() -> None:
    with pytest.raises(UnknownPath, match=r"from '\[0:2\]' on"):
        compile_path(".items[0:2]")
