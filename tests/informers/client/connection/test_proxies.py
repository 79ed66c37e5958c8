"""Selection of the proxy."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from aiohttp import web

from informers.client.transport import connect
from informers.errors import Unreachable
from tests.informers.client.conftest import SHORT, Connect, kubeconfig
from tests.informers.client.objects import THINGS, added, thing
from tests.informers.client.server import ScriptedServer, reply, stream

pytestmark = pytest.mark.anyio


async def test_a4_the_proxy_of_the_environment_is_used_unless_excluded(
    server: ScriptedServer, connect_to: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers(reply(thing()))
    monkeypatch.setenv("http_proxy", server.url)
    async with connect_to("http://api.invalid:8080") as api:
        await api.get(THINGS, "a", "ns")
    assert server.received[0].headers["Host"] == "api.invalid:8080"
    for excluded in ("api.invalid", ".invalid", "*"):
        monkeypatch.setenv("no_proxy", excluded)
        async with connect_to("http://api.invalid:8080") as api:
            with pytest.raises(Unreachable):
                await api.get(THINGS, "a", "ns")
    assert len(server.received) == 1


async def test_a4_no_proxy_may_contain_networks(
    server: ScriptedServer, connect_to: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers(reply(thing()))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "other.example,127.0.0.0/8")
    async with connect_to(server.url) as api:
        await api.get(THINGS, "a", "ns")


async def test_a4_the_proxy_of_the_kubeconfig_precedes_that_of_the_environment(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers(reply(thing()))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    file = kubeconfig(tmp_path / "config", "http://api.invalid", cluster={"proxy-url": server.url})
    async with connect(kubeconfig=str(file)) as api:
        await api.get(THINGS, "a", "ns")


async def test_a4_a_watch_survives_a_proxy_that_delays_the_headers_until_the_first_event(
    server: ScriptedServer, connect_briefly: Connect
) -> None:
    later = stream(added("a", version=6))

    async def delay_headers(request: web.Request) -> web.StreamResponse:
        # Longer than the timeout of any other request.
        await anyio.sleep(2 * SHORT.request_seconds)
        return await later(request)

    server.answers(delay_headers)
    async with (
        connect_briefly(server.url) as api,
        api.watch(THINGS, resource_version="5", timeout_seconds=300, idle_seconds=30) as events,
    ):
        assert [event.resource_version async for event in events] == ["6"]
