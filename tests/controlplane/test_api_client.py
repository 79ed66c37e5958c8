"""Tests of the API client."""

import socket

import pytest

from e2e.controlplane.api import Api
from e2e.controlplane.errors import ApiRefused, ApiUnreachable
from e2e.controlplane.kubeconfig import Access
from tests.controlplane.fakes import FakeApiServer, serve_api

NODES = "/api/v1/nodes"


def test_an_error_status_is_one_line_with_the_servers_message(api: Api) -> None:
    api.create(NODES, {"metadata": {"name": "a"}})
    with pytest.raises(ApiRefused) as refusal:
        api.create(NODES, {"metadata": {"name": "a"}})
    assert str(refusal.value).endswith(": 409 AlreadyExists: this is AlreadyExists")
    assert (refusal.value.status, refusal.value.reason) == (409, "AlreadyExists")


def test_an_answer_without_a_status_object_is_quoted(api: Api, api_server: FakeApiServer) -> None:
    api_server.answers[NODES] = (502, b"bad\ngateway")
    with pytest.raises(ApiRefused, match=r"^GET /api/v1/nodes: 502 Bad Gateway: bad gateway$"):
        api.get(NODES)


def test_find_returns_none_for_a_missing_object(api: Api) -> None:
    assert api.find(f"{NODES}/a") is None
    assert api.delete(f"{NODES}/a") is False
    api.create(NODES, {"metadata": {"name": "a"}})
    assert api.find(f"{NODES}/a") is not None
    assert api.delete(f"{NODES}/a") is True
    with pytest.raises(ApiRefused):
        api.get(f"{NODES}/a")


def test_other_refusals_are_errors_of_find(api: Api, api_server: FakeApiServer) -> None:
    api_server.answers[f"{NODES}/a"] = (403, b"{}")
    for ask in (api.find, api.delete):
        with pytest.raises(ApiRefused, match="403"):
            ask(f"{NODES}/a")


def test_one_connection_serves_many_requests(api: Api, api_server: FakeApiServer) -> None:
    for _ in range(5):
        api.items(NODES)
    assert api_server.connections == 1


def test_a_closed_idle_connection_is_no_error(api: Api, api_server: FakeApiServer) -> None:
    api.items(NODES)
    connection = api._connection
    assert connection is not None
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    api.create(NODES, {"metadata": {"name": "a"}})
    assert api_server.connections == 2


def test_a_missing_answer_differs_from_a_refusal() -> None:
    with serve_api(FakeApiServer()) as server:
        url = server.url
    with Api(Access(server=url, tls=None, token=None)) as api, pytest.raises(ApiUnreachable, match=url):
        api.get(NODES)
    assert repr(api) == f"<Api {url} idle>"
