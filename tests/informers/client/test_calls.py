"""Requests and responses of each `Api` call."""

from __future__ import annotations

import gzip

import pytest

from informers.api import PatchType, Preconditions, Selectors
from informers.client.transport import KubeApi, path_of
from informers.errors import Undecodable
from tests.informers.client.conftest import Connect
from tests.informers.client.objects import NODES, THINGS, listing, thing
from tests.informers.client.server import ScriptedServer, failure, reply, status

pytestmark = pytest.mark.anyio


def test_paths_follow_the_url_scheme_of_the_api() -> None:
    assert path_of(NODES) == "/api/v1/nodes"
    assert path_of(NODES, name="n") == "/api/v1/nodes/n"
    assert path_of(THINGS) == "/apis/example.io/v1/things"
    assert path_of(THINGS, "ns", "a", "status") == "/apis/example.io/v1/namespaces/ns/things/a/status"
    assert path_of(THINGS, "ns", "a/../b?c") == "/apis/example.io/v1/namespaces/ns/things/a%2F..%2Fb%3Fc"


def test_a_path_with_a_wrong_scope_is_rejected() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        path_of(THINGS, name="a")
    with pytest.raises(ValueError, match="cluster-scoped"):
        path_of(NODES, "ns")


async def test_get_decodes_the_object(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(reply(thing("a", version=7, size=3)))
    got = await api.get(THINGS, "a", "ns")
    assert (got.metadata.name, got.metadata.resource_version, got.spec.size) == ("a", "7", 3)
    (request,) = server.received
    assert (request.method, request.path) == ("GET", "/apis/example.io/v1/namespaces/ns/things/a")
    assert "Authorization" not in request.headers  # the server has no TLS
    assert request.headers["User-Agent"] == "informers"


async def test_l1_a_first_list_is_consistent_and_a_relist_requests_at_least_its_version(
    api: KubeApi, server: ScriptedServer
) -> None:
    server.answers(reply(listing()))
    await api.list_page(THINGS, limit=500)
    await api.list_page(THINGS, "ns", resource_version="5", limit=10, selectors=Selectors("a=b,c", "x=y"))
    await api.list_page(THINGS, resource_version="5", continue_token="more", limit=10)
    assert [dict(request.query) for request in server.received] == [
        {"limit": "500"},
        {
            "resourceVersion": "5",
            "resourceVersionMatch": "NotOlderThan",
            "limit": "10",
            "labelSelector": "a=b,c",
            "fieldSelector": "x=y",
        },
        {"continue": "more", "limit": "10"},
    ]


async def test_w12_an_unreadable_item_does_not_affect_the_rest_of_the_page(
    api: KubeApi, server: ScriptedServer
) -> None:
    things = [thing(f"t{number}", version=number) for number in range(1000)]
    things[500] = thing("bad", version=42, size="huge")
    server.answers(reply(listing(*things, version=77, token="next")))
    page = await api.list_page(THINGS)
    assert len(page.items) == 999
    assert (page.resource_version, page.continue_token) == ("77", "next")
    (bad,) = page.unreadable
    assert (bad.name, bad.namespace, bad.uid, bad.resource_version) == ("bad", "ns", "uid-bad", "42")
    assert "$.spec.size" in bad.error


async def test_l11_an_empty_list_may_be_null(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(reply({"kind": "ThingList", "metadata": {"resourceVersion": "3"}, "items": None}))
    page = await api.list_page(THINGS)
    assert (page.items, page.resource_version, page.continue_token) == ([], "3", "")


async def test_a_response_that_is_not_a_list_is_not_treated_as_an_empty_list(
    api: KubeApi, server: ScriptedServer
) -> None:
    for body in ({"kind": "Table", "metadata": {}, "rows": []}, b"<html>", status(200)):
        server.answers(reply(body))
        with pytest.raises(Undecodable, match=r"listing things\.example\.io is not a list"):
            await api.list_page(THINGS)


async def test_writes_send_their_bodies(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(reply(thing("a", version=2), 201))
    assert (
        await api.create(THINGS, {"spec": {"size": 1}}, "ns", strict=True)
    ).metadata.resource_version == "2"
    await api.create(THINGS, {}, "ns", dry_run=True)
    await api.patch(THINGS, "a", {"x": None}, "ns", subresource="status")
    await api.patch(THINGS, "a", [{"op": "test"}], "ns", patch_type=PatchType.JSON)
    await api.update(THINGS, "a", {"y": "é"}, "ns")
    sent = [
        (r.method, r.path.rpartition("/namespaces/ns/")[2], r.headers["Content-Type"], r.json)
        for r in server.received
    ]
    assert sent == [
        ("POST", "things", "application/json", {"spec": {"size": 1}}),
        ("POST", "things", "application/json", {}),
        ("PATCH", "things/a/status", "application/merge-patch+json", {"x": None}),
        ("PATCH", "things/a", "application/json-patch+json", [{"op": "test"}]),
        ("PUT", "things/a", "application/json", {"y": "é"}),
    ]
    assert [dict(request.query) for request in server.received[:2]] == [
        {"fieldValidation": "Strict"},
        {"dryRun": "All"},
    ]


async def test_r8_a_delete_carries_its_preconditions(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(
        reply(thing("a", version=8)), reply({"kind": "Status", "status": "Success", "details": {}})
    )
    terminating = await api.delete(THINGS, "a", "ns", preconditions=Preconditions("u", "7"))
    assert terminating is not None
    assert terminating.metadata.resource_version == "8"
    assert await api.delete(THINGS, "a", "ns") is None
    assert [request.json["preconditions"] for request in server.received] == [
        {"uid": "u", "resourceVersion": "7"},
        {},
    ]
    assert all("gracePeriodSeconds" not in request.json for request in server.received)


async def test_an_undecodable_response_names_its_object(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(reply(thing("a", size="huge")))
    with pytest.raises(Undecodable, match=r"ns/a of kind Thing"):
        await api.get(THINGS, "a", "ns")


async def test_gzip_is_requested_and_decoded(api: KubeApi, server: ScriptedServer) -> None:
    body = gzip.compress(str(listing(thing())).replace("'", '"').encode())
    server.answers(reply(body, headers={"Content-Encoding": "gzip"}))
    assert len((await api.list_page(THINGS)).items) == 1
    assert "gzip" in server.received[0].headers["Accept-Encoding"]


async def test_a7_sequential_requests_share_one_connection(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(reply(thing()), failure(404), reply(thing()))
    await api.get(THINGS, "a", "ns")
    with pytest.raises(Exception, match="HTTP 404"):
        await api.get(THINGS, "a", "ns")
    await api.get(THINGS, "a", "ns")
    assert len(server.connections) == 1


async def test_every_request_is_counted_with_its_duration(api: KubeApi, server: ScriptedServer) -> None:
    server.answers(reply(thing()))
    await api.get(THINGS, "a", "ns")
    server.answers(failure(409))
    with pytest.raises(Exception, match="409"):
        await api.create(THINGS, {}, "ns")
    counts = api.statistics().requests
    assert counts.requests_total == {("GET", "200"): 1, ("POST", "409"): 1}
    assert all(0 <= seconds.sum < 10 for seconds in counts.seconds.values())


async def test_a_closed_api_raises_an_api_error(server: ScriptedServer, connect_to: Connect) -> None:
    async with connect_to(server.url) as api:
        pass
    with pytest.raises(Exception, match="closed on our side"):
        await api.get(THINGS, "a", "ns")


async def test_repr_and_statistics_show_the_state_without_secrets(
    api: KubeApi, server: ScriptedServer
) -> None:
    host = server.url.removeprefix("http://")
    assert repr(api) == f"<KubeApi {host} requests=0>"
    assert api.server == host
    assert api.statistics().session.pools == 1
    assert "first" not in repr(vars(api)) + repr(api._sessions.current())
