"""HTTP requests besides reads and writes of objects, and the refusal of unsupported or invalid requests."""

from __future__ import annotations

import socket

import pytest

from simulation.cluster.workloads import workload
from simulation.embedded.cluster import EmbeddedCluster
from tests.embedded.raw_client import (
    JSON_PATCH,
    LEDGERS_PATH,
    MERGE,
    PODS_PATH,
    STRATEGIC,
    WORKLOADS_PATH,
    RawClient,
    ledger,
    pod,
)

pytestmark = pytest.mark.anyio

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


# Documents about the server.


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz?verbose"])
async def test_health_endpoints_respond_with_ok(raw: RawClient, path: str) -> None:
    answer = await raw("GET", path)

    assert (answer.status, answer.body) == (200, b"ok")


async def test_discovery_lists_every_group_and_kind(raw: RawClient) -> None:
    groups = (await raw("GET", "/apis")).body["groups"]
    ours = (await raw("GET", "/apis/openrl.io/v1alpha1")).body["resources"]
    core = (await raw("GET", "/api/v1")).body["resources"]

    assert {group["name"] for group in groups} == {
        "coordination.k8s.io",
        "events.k8s.io",
        "openrl.io",
        "resource.k8s.io",
    }
    assert [(item["name"], item.get("shortNames")) for item in ours] == [
        ("workloads", ["owl"]),
        ("workloads/status", None),
        ("claimledgers", ["ocl"]),
    ]
    assert {"pods/eviction", "nodes/status", "events"} <= {item["name"] for item in core}


async def test_aggregated_discovery_has_the_same_content(raw: RawClient) -> None:
    answer = await raw("GET", "/apis", accept=f"{AGGREGATED},application/json")

    assert answer.headers["Content-Type"] == AGGREGATED
    (ours,) = (item for item in answer.body["items"] if item["metadata"]["name"] == "openrl.io")
    assert [item["resource"] for item in ours["versions"][0]["resources"]] == ["workloads", "claimledgers"]


async def test_openapi_declares_field_validation_for_kubectl(raw: RawClient) -> None:
    index = (await raw("GET", "/openapi/v3")).body["paths"]
    url = index["apis/openrl.io/v1alpha1"]["serverRelativeURL"]
    document = (await raw("GET", url)).body

    patch = document["paths"]["/apis/openrl.io/v1alpha1/namespaces/{namespace}/workloads/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Workload"
    described = document["components"]["schemas"]["io.openrl.v1alpha1.Workload"]
    assert "accelerator" in described["properties"]["spec"]["properties"]


# Unknown fields and dry runs.


async def test_unknown_fields_are_refused_warned_about_or_dropped_on_request(raw: RawClient) -> None:
    body = workload("worker", colour="red")

    strict = await raw("POST", WORKLOADS_PATH, body, fieldValidation="Strict")
    warned = await raw("POST", WORKLOADS_PATH, body, fieldValidation="Warn")
    ignored = await raw(
        "PATCH", f"{WORKLOADS_PATH}/worker", {"spec": {"a": 1}}, content=MERGE, fieldValidation="Ignore"
    )
    again = await raw(
        "PATCH", f"{WORKLOADS_PATH}/worker", {"spec": {"a": 1}}, content=MERGE, fieldValidation="Strict"
    )
    unknown = await raw("POST", WORKLOADS_PATH, body, fieldValidation="Maybe")

    assert strict.refused == again.refused == (400, "BadRequest")
    assert (warned.status, warned.headers["Warning"]) == (201, r'299 - "unknown field \"spec.colour\""')
    assert "colour" not in warned.body["spec"]
    assert (ignored.status, ignored.headers.get("Warning")) == (200, None)
    assert unknown.refused == (422, "Invalid")


POLICY = "'openrl-workload-advice'"
ADVICE = f"Validation failed for ValidatingAdmissionPolicy {POLICY} with binding {POLICY}"
SEVERAL = {"memory": "60Gi", "mode": "MultiGPU", "devices": 2}


@pytest.mark.parametrize(
    ("namespace", "spec", "warning"),
    [
        ("openrl-system", {}, None),
        ("openrl-system", {"accelerator": SEVERAL}, None),
        (
            "openrl-system",
            {"accelerator": {"memory": "60Gi", "devcies": 2}},
            "spec.accelerator: unknown field devcies",
        ),
        (
            "openrl-system",
            {"accelerator": SEVERAL, "exclusive": False},
            "spec.exclusive: false has no effect with mode MultiGPU: such a worker never shares",
        ),
        (
            "default",
            {},
            "metadata.namespace: no label openrl.io/workers=true: a controller may not serve this namespace",
        ),
    ],
)
async def test_a_new_workload_is_answered_with_the_advice_of_the_policy(
    raw: RawClient, namespace: str, spec: dict[str, object], warning: str | None
) -> None:
    body = workload("worker")
    body["spec"] |= {"exclusive": True, **spec}
    body["metadata"].pop("namespace", None)
    path = WORKLOADS_PATH.replace("openrl-system", namespace)

    created = await raw("POST", path, body)
    changed = await raw("PATCH", f"{path}/worker", {"metadata": {"labels": {"a": "b"}}}, content=MERGE)

    assert created.status == 201
    assert created.headers.get("Warning") == (warning and f'299 - "{ADVICE}: {warning}"')
    assert "Warning" not in changed.headers, "the policy checks new Workloads only"


async def test_a_dry_run_returns_the_result_and_changes_nothing(
    cluster: EmbeddedCluster, raw: RawClient
) -> None:
    await raw("POST", LEDGERS_PATH, ledger("kept"))
    revision = cluster.server.store.revision
    dry = {"dryRun": "All"}

    created = await raw("POST", LEDGERS_PATH, ledger("new"), **dry)
    taken = await raw("POST", LEDGERS_PATH, ledger("kept"), **dry)
    patched = await raw(
        "PATCH", f"{LEDGERS_PATH}/kept", {"metadata": {"labels": {"a": "b"}}}, content=MERGE, **dry
    )
    deleted = await raw("DELETE", f"{LEDGERS_PATH}/kept", **dry)
    unknown = await raw("POST", LEDGERS_PATH, ledger("new"), dryRun="Some")

    assert [answer.status for answer in (created, patched, deleted)] == [201, 200, 200]
    assert patched.body["metadata"]["labels"] == {"a": "b"}
    assert taken.refused == (409, "AlreadyExists")
    assert unknown.refused == (422, "Invalid")
    assert cluster.server.store.revision == revision


# Patches and deletions in the form that kubectl sends.


async def test_a_strategic_patch_merges_lists_by_name(cluster: EmbeddedCluster, raw: RawClient) -> None:
    cluster.fleet.add_nodes(1)
    conditions = [{"type": "DiskPressure", "status": "False"}]
    node = "/api/v1/nodes/gpu-node-0"

    await raw("PATCH", f"{node}/status", {"status": {"conditions": conditions}}, content=STRATEGIC)
    cordoned = await raw("PATCH", node, {"spec": {"unschedulable": True}}, content=STRATEGIC)
    opened = await raw("PATCH", node, {"spec": {"unschedulable": None}}, content=STRATEGIC)

    types = [item["type"] for item in opened.body["status"]["conditions"]]
    assert types == ["Ready", "DiskPressure"]
    assert cordoned.body["spec"] == {"unschedulable": True}
    assert opened.body["spec"] == {}


async def test_a_patch_cannot_change_the_identity_of_an_object(raw: RawClient) -> None:
    await raw("POST", PODS_PATH, pod())
    renamed = {"metadata": {"name": "pod-b"}}

    answers = [
        await raw("PATCH", f"{PODS_PATH}/pod-a", renamed, content=content) for content in (MERGE, STRATEGIC)
    ]

    assert [answer.refused for answer in answers] == [(400, "BadRequest")] * 2


async def test_custom_kinds_refuse_strategic_patches(raw: RawClient) -> None:
    await raw("POST", LEDGERS_PATH, ledger())

    answer = await raw("PATCH", f"{LEDGERS_PATH}/ledger-a", {}, content=STRATEGIC)

    assert answer.refused == (415, "UnsupportedMediaType")
    assert f"{JSON_PATCH}, {MERGE}" in answer.body["message"]


async def test_an_eviction_deletes_the_pod(raw: RawClient) -> None:
    await raw("POST", PODS_PATH, pod())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "pod-a"}}

    evicted = await raw("POST", f"{PODS_PATH}/pod-a/eviction", eviction)

    assert (evicted.status, evicted.body["status"]) == (201, "Success")
    assert (await raw("GET", f"{PODS_PATH}/pod-a")).refused == (404, "NotFound")


async def test_deletecollection_deletes_only_selected_objects(raw: RawClient) -> None:
    await raw("POST", LEDGERS_PATH, ledger("a", labels={"go": "yes"}))
    await raw("POST", LEDGERS_PATH, ledger("b"))

    removed = await raw("DELETE", LEDGERS_PATH, labelSelector="go=yes")
    left = await raw("GET", LEDGERS_PATH)

    names = [[item["metadata"]["name"] for item in answer.body["items"]] for answer in (removed, left)]
    assert names == [["a"], ["b"]]


async def test_a_dry_run_of_deletecollection_deletes_nothing(raw: RawClient) -> None:
    await raw("POST", LEDGERS_PATH, ledger("a"))

    answer = await raw("DELETE", LEDGERS_PATH, dryRun="All")

    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a"]
    assert (await raw("GET", f"{LEDGERS_PATH}/a")).status == 200


async def test_delete_options_are_read_from_body_or_query(raw: RawClient) -> None:
    for name in ("a", "b"):
        await raw("POST", PODS_PATH, pod(name, nodeName="nowhere"))
    orphan = {"propagationPolicy": "Orphan"}

    held = await raw("DELETE", f"{PODS_PATH}/a", {"gracePeriodSeconds": 7})
    gone = await raw("DELETE", f"{PODS_PATH}/b", gracePeriodSeconds="0", propagationPolicy="Foreground")
    refused = await raw("DELETE", f"{PODS_PATH}/a", orphan)

    assert held.body["metadata"]["deletionGracePeriodSeconds"] == 7
    assert gone.status == 200
    assert (await raw("GET", f"{PODS_PATH}/b")).refused == (404, "NotFound")
    assert refused.refused == (422, "Invalid")


async def test_a_get_ignores_the_watch_parameter(raw: RawClient) -> None:
    await raw("POST", LEDGERS_PATH, ledger("a"))

    answer = await raw("GET", f"{LEDGERS_PATH}/a", watch="true")

    assert answer.body["kind"] == "ClaimLedger"


# Refusals.


@pytest.mark.parametrize(
    ("method", "path", "refused"),
    [
        ("GET", f"{LEDGERS_PATH}/nothing", (404, "NotFound")),
        ("POST", "/api/v1/pods", (405, "MethodNotAllowed")),
        ("PUT", PODS_PATH, (405, "MethodNotAllowed")),
        ("DELETE", "/api/v1/namespaces/default", (403, "Forbidden")),
        ("DELETE", "/api/v1/namespaces", (405, "MethodNotAllowed")),
        ("GET", f"{PODS_PATH}/pod-a/eviction", (405, "MethodNotAllowed")),
        ("GET", f"{PODS_PATH}?limit=many", (400, "BadRequest")),
        ("GET", f"{PODS_PATH}?watch=perhaps", (400, "BadRequest")),
        ("GET", f"{PODS_PATH}?labelSelector=a+in+b", (400, "BadRequest")),
        ("GET", f"{PODS_PATH}?resourceVersion=1&resourceVersionMatch=Exact", (410, "Expired")),
        ("GET", f"{PODS_PATH}?resourceVersion=999999", (504, "Timeout")),
        ("GET", f"{PODS_PATH}?continue=nonsense", (400, "BadRequest")),
        ("GET", f"{PODS_PATH}?watch=true&fieldSelector=spec.hostname%3Da", (400, "BadRequest")),
        ("GET", f"{PODS_PATH}?watch=true&resourceVersion=new", (500, "")),
    ],
)
async def test_invalid_requests_are_refused_with_the_code_and_reason_of_a_real_server(
    raw: RawClient, method: str, path: str, refused: tuple[int, str]
) -> None:
    assert (await raw(method, path, {} if method in {"POST", "PUT"} else None)).refused == refused


@pytest.mark.parametrize(
    "path",
    ["/apis/openrl.io/v2/workloads", "/apis/apps/v1/deployments", f"{WORKLOADS_PATH}/worker/scale", "/x"],
)
async def test_unknown_paths_are_not_found(raw: RawClient, path: str) -> None:
    answer = await raw("GET", path)

    assert (answer.status, answer.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (b"{", (400, "BadRequest")),
        (b"[]", (400, "BadRequest")),
        (b'{"metadata": []}', (400, "BadRequest")),
        (b'{"metadata": {"name": "a", "labels": {"a": 1}}}', (400, "BadRequest")),
        (b'{"metadata": {"name": "a", "finalizers": "b"}}', (400, "BadRequest")),
        (b'{"metadata": {"name": "a"}, "spec": "b"}', (400, "BadRequest")),
        (b'{"metadata": {"name": "a"}, "kind": "Node"}', (400, "BadRequest")),
        (b'{"metadata": {"name": "a", "namespace": "default"}}', (400, "BadRequest")),
        (b'{"metadata": {"name": "A"}}', (422, "Invalid")),
    ],
)
async def test_a_body_that_is_not_an_object_of_the_kind_is_refused(
    raw: RawClient, body: bytes, refused: tuple[int, str]
) -> None:
    assert (await raw("POST", PODS_PATH, body)).refused == refused


async def test_patches_that_result_in_an_invalid_object_are_refused(raw: RawClient) -> None:
    await raw("POST", PODS_PATH, pod())
    path = f"{PODS_PATH}/pod-a"
    breaking = [{"op": "add", "path": "/metadata/labels", "value": "none"}]

    merged = await raw("PATCH", path, {"metadata": {"labels": {"a": 1}}}, content=MERGE)
    patched = await raw("PATCH", path, breaking, content=JSON_PATCH)

    assert merged.refused == patched.refused == (400, "BadRequest")
    assert "labels" not in (await raw("GET", path)).body["metadata"]


async def test_yaml_is_supported_and_protobuf_is_not(raw: RawClient) -> None:
    text = b"metadata: {name: ledger-a, annotations: {day: '2026-01-01'}}\nspec: {claimName: claim-a}"

    made = await raw("POST", LEDGERS_PATH, text, content="application/yaml")
    sent = await raw("POST", LEDGERS_PATH, b"k8s\x00", content="application/vnd.kubernetes.protobuf")
    wanted = await raw("GET", LEDGERS_PATH, accept="application/vnd.kubernetes.protobuf")

    assert made.status == 201
    assert sent.refused == (415, "UnsupportedMediaType")
    assert wanted.refused == (406, "NotAcceptable")


async def test_an_internal_error_fails_only_its_own_request(
    raw: RawClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("simulation.apiserver.server.new_metadata", lambda *_args, **_kwargs: 1 / 0)
        answer = await raw("POST", LEDGERS_PATH, ledger())

    assert answer.refused == (500, "InternalError")
    assert "ZeroDivisionError" in caplog.text
    assert (await raw("POST", LEDGERS_PATH, ledger())).status == 201


async def test_an_error_of_a_simulated_component_does_not_stop_it(
    cluster: EmbeddedCluster, raw: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise KeyError("nothing")

    cluster.fleet.add_nodes(1)
    cluster.event_queue.schedule(0.0, ("test", "fail"), fail)
    containers = [{"name": "main", "image": "main:1"}]
    await raw("POST", PODS_PATH, {"metadata": {"name": "pod-a"}, "spec": {"containers": containers}})
    query = {"watch": "true", "fieldSelector": "status.phase=Running"}
    async with raw.session.get(PODS_PATH, params=query) as running:
        assert b'"pod-a"' in await running.content.readline()

    assert "Simulated component failed on an object" in caplog.text


# Access.


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com:80", "10.0.0.1", "[::1"])
async def test_requests_with_another_host_name_are_refused(raw: RawClient, host: str) -> None:
    assert (await raw("GET", PODS_PATH, host=host)).refused == (403, "Forbidden")


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:80"])
async def test_requests_with_a_loopback_host_name_are_accepted(raw: RawClient, host: str) -> None:
    assert (await raw("GET", PODS_PATH, host=host)).status == 200


async def test_the_cluster_listens_on_a_free_loopback_port_only(cluster: EmbeddedCluster) -> None:
    port = int(cluster.url.rpartition(":")[2])

    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port))
    # The bind would fail if the cluster listened on every interface.
    socket.create_server(("127.0.0.2", port)).close()
