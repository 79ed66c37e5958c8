"""Output of `kubectl get`: columns and cells of each kind, and the other forms that a client may accept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from simulation.cluster.workloads import workload
from simulation.embedded.cluster import EmbeddedCluster
from simulation.embedded.printing.jsonpath import UnknownPath, compile_path
from simulation.embedded.printing.pods import human_duration
from tests.embedded.raw_client import NAMESPACE, PODS_PATH, TABLE, WORKLOADS_PATH, RawClient, pod

EVENTS_PATH = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


def rows_of(table: Any, *, wide: bool = False) -> list[dict[str, Any]]:
    """Return the cells of each row by column."""
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
async def test_custom_kinds_have_the_columns_of_their_definitions(raw: RawClient) -> None:
    await raw("POST", WORKLOADS_PATH, workload("worker", ownerID="team-a"))
    status = {"status": {"phase": "Pending", "deviceCount": 2, "reason": "WaitingForCapacity: full"}}
    await raw("PATCH", f"{WORKLOADS_PATH}/worker/status", status, content="application/merge-patch+json")

    table = (await raw("GET", WORKLOADS_PATH, accept=TABLE)).body

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
async def test_nodes_claims_and_slices_have_status_columns(cluster: EmbeddedCluster, raw: RawClient) -> None:
    cluster.fleet.add_nodes(2)
    cluster.fleet.cordon("gpu-node-0")
    cluster.fleet.set_ready("gpu-node-1", ready=False)
    claims = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
    await raw("POST", claims, {"metadata": {"name": "claim-a"}, "spec": {}})

    nodes = rows_of((await raw("GET", "/api/v1/nodes", accept=TABLE)).body, wide=True)
    slices = rows_of((await raw("GET", "/apis/resource.k8s.io/v1/resourceslices", accept=TABLE)).body)
    (claim,) = rows_of((await raw("GET", claims, accept=TABLE)).body)

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
async def test_the_pod_status_is_derived_from_its_containers(
    raw: RawClient, status: dict[str, Any], shown: str, ready: str
) -> None:
    await raw("POST", PODS_PATH, pod())
    patch = {"status": status}
    await raw("PATCH", f"{PODS_PATH}/pod-a/status", patch, content="application/merge-patch+json")

    (row,) = rows_of((await raw("GET", PODS_PATH, accept=TABLE)).body)

    assert (row["Status"], row["Ready"]) == (shown, ready)


@pytest.mark.anyio
async def test_a_deleted_pod_is_shown_as_terminating(raw: RawClient) -> None:
    await raw("POST", PODS_PATH, pod(nodeName="nowhere"))
    await raw("DELETE", f"{PODS_PATH}/pod-a")

    (row,) = rows_of((await raw("GET", PODS_PATH, accept=TABLE)).body)

    assert row["Status"] == "Terminating"


@pytest.mark.anyio
async def test_events_are_served_in_both_api_groups(raw: RawClient) -> None:
    about = {"kind": "Workload", "name": "worker", "namespace": NAMESPACE, "uid": "u"}
    event = {
        "metadata": {"name": "event-a"},
        "type": "Warning",
        "reason": "Unschedulable",
        "note": "No capacity.",
        "regarding": about,
        "reportingController": "openrl.io/open-rl-scheduler",
        "reportingInstance": "host",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:05.000000Z"},
    }
    await raw("POST", EVENTS_PATH, event)
    old_path = f"/api/v1/namespaces/{NAMESPACE}/events"

    chosen = (await raw("GET", old_path, fieldSelector="involvedObject.name=worker,type=Warning")).body
    others = (await raw("GET", old_path, fieldSelector="involvedObject.name=another")).body
    (row,) = rows_of((await raw("GET", old_path, accept=TABLE)).body, wide=True)

    assert [item["message"] for item in chosen["items"]] == ["No capacity."]
    assert chosen["items"][0]["involvedObject"] == about
    assert others["items"] == []
    assert (row["Object"], row["Count"], row["Source"]) == (
        "workload/worker",
        3,
        "openrl.io/open-rl-scheduler, host",
    )
    assert (await raw("POST", old_path, event)).refused == (405, "MethodNotAllowed")


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["", "/pod-a"])
@pytest.mark.parametrize(
    ("include", "keys"), [("None", set()), ("Metadata", {"metadata"}), ("Object", {"spec"})]
)
async def test_a_table_row_includes_as_much_of_its_object_as_requested(
    raw: RawClient, path: str, include: str, keys: set[str]
) -> None:
    await raw("POST", PODS_PATH, pod())

    table = (await raw("GET", f"{PODS_PATH}{path}", accept=TABLE, includeObject=include)).body

    assert keys <= set(table["rows"][0].get("object", {}))
    assert ("object" in table["rows"][0]) is bool(keys)


@pytest.mark.anyio
async def test_a_client_can_request_metadata_only(raw: RawClient) -> None:
    await raw("POST", PODS_PATH, pod())

    listed = (await raw("GET", PODS_PATH, accept=METADATA)).body

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
def test_an_age_has_at_most_two_units(seconds: int, text: str) -> None:
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
def test_a_jsonpath_returns_the_first_value(path: str, value: object) -> None:
    items = [{"name": "one", "size": 1}, {"name": "two", "size": 2}]
    document = {"a": {"b": 1}, "labels": {"x.y/z": "w"}, "items": items}

    assert compile_path(path)(document) == value


def test_an_unsupported_jsonpath_is_refused_when_it_is_compiled() -> None:
    with pytest.raises(UnknownPath, match=r"from '\[0:2\]' on"):
        compile_path(".items[0:2]")
