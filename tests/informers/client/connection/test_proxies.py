"""Selection of the proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from informers.client.proxies import environment_proxy
from informers.client.transport import connect
from informers.errors import ConfigurationError, OutcomeUnknown, Unreachable
from tests.informers.client.conftest import SHORT, Connect, kubeconfig
from tests.informers.client.objects import THINGS, added, thing
from tests.informers.client.server import ScriptedServer, read_request, reply, serve_raw, stream

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


@pytest.mark.parametrize(
    ("environ", "http", "https"),
    [
        ({"HTTP_PROXY": "http://a:1"}, "http://a:1", None),
        ({"HTTPS_PROXY": "http://a:1"}, None, "http://a:1"),
        ({"http_proxy": "http://a:1", "https_proxy": "https://b:2"}, "http://a:1", "https://b:2"),
        ({"HTTPS_PROXY": "http://upper", "https_proxy": "http://lower"}, None, "http://upper"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://lower"}, None, "http://lower"),
        ({"HTTP_PROXY": "127.0.0.1:3128", "HTTPS_PROXY": "proxy"}, "http://127.0.0.1:3128", "http://proxy"),
        ({"HTTPS_PROXY": "u:p%40@proxy.example:3128"}, None, "http://u:p%40@proxy.example:3128"),
        ({"HTTPS_PROXY": "[::1]:3128"}, None, "http://[::1]:3128"),
        ({"ALL_PROXY": "http://a:1", "all_proxy": "socks5://a:1"}, None, None),
    ],
)
def test_a4_the_variables_of_the_environment_mean_what_they_mean_to_go(
    environ: dict[str, str], http: str | None, https: str | None
) -> None:
    assert environment_proxy("http://api.example.com", environ) == http
    assert environment_proxy("https://api.example.com:6443/path", environ) == https


@pytest.mark.parametrize(
    ("no_proxy", "host", "excluded"),
    [
        ("", "api.example.com", False),
        ("*", "api.example.com", True),
        ("other.com, *", "api.example.com", True),
        ("example.com", "api.example.com", True),
        ("example.com", "example.com", True),
        ("example.com", "badexample.com", False),
        (".example.com", "api.example.com", True),
        (".example.com", "example.com", False),
        ("*.example.com", "api.example.com", True),
        ("*.example.com", "example.com", False),
        ("EXAMPLE.com", "api.Example.COM", True),
        ("a, ,example.com ", "api.example.com", True),
        ("example.com:6443", "api.example.com", True),
        ("example.com:443", "api.example.com", False),
        ("example.com:bad", "api.example.com", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1:6443", "10.0.0.1", True),
        ("10.0.0.1:1", "10.0.0.1", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("11.0.0.0/8", "10.1.2.3", False),
        ("10.0.0.0/99", "10.1.2.3", False),
        (".0.0.1", "10.0.0.1", False),
        ("fd00::/8", "[fd00::1]", True),
        ("fd00::1", "[fd00::1]", True),
        ("[fd00::1]:6443", "[fd00::1]", True),
        ("[fd00::1]:1", "[fd00::1]", False),
        ("", "localhost", True),
        ("", "127.9.9.9", True),
        ("", "[::1]", True),
    ],
)
def test_a4_no_proxy_excludes_what_it_excludes_for_go(no_proxy: str, host: str, excluded: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        environ = {"HTTPS_PROXY": "http://proxy:3128", name: no_proxy}
        expected = None if excluded else "http://proxy:3128"
        assert environment_proxy(f"https://{host}:6443", environ) == expected


@pytest.mark.parametrize(
    "proxy", ["socks5://u:SECRET@p:1", "socks5h://p", "ftp://p", "http://", "http://p:x"]
)
async def test_an_unusable_proxy_of_the_environment_is_refused_with_one_line(
    proxy: str, connect_to: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(ConfigurationError, match=r"environment variable HTTPS_PROXY: .*http") as caught:
        async with connect_to("https://api.invalid"):
            pass
    assert "SECRET" not in str(caught.value)
    monkeypatch.setenv("no_proxy", "api.invalid")
    async with connect_to("https://api.invalid"):
        pass


@pytest.mark.parametrize(
    "answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 407 No\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]
)
async def test_a_write_that_the_proxy_did_not_tunnel_was_certainly_not_sent(
    answer: bytes, tmp_path: Path
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    async with serve_raw(refuse) as proxy:
        file = kubeconfig(tmp_path / "config", "https://api.invalid", cluster={"proxy-url": proxy})
        async with connect(kubeconfig=str(file), timeouts=SHORT) as api:
            with pytest.raises(Unreachable):
                await api.create(THINGS, {}, "ns")


async def test_a_write_is_certainly_not_sent_if_no_proxy_listens(tmp_path: Path) -> None:
    for server in ("http://api.invalid", "https://api.invalid"):
        file = kubeconfig(tmp_path / "config", server, cluster={"proxy-url": "http://127.0.0.1:1"})
        async with connect(kubeconfig=str(file), timeouts=SHORT) as api:
            with pytest.raises(Unreachable):
                await api.delete(THINGS, "a", "ns")


async def test_a_write_that_reached_a_proxy_in_plain_text_has_an_unknown_outcome(tmp_path: Path) -> None:
    async def read_and_close(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with serve_raw(read_and_close) as proxy:
        file = kubeconfig(tmp_path / "config", "http://api.invalid", cluster={"proxy-url": proxy})
        async with connect(kubeconfig=str(file), timeouts=SHORT) as api:
            with pytest.raises(OutcomeUnknown):
                await api.create(THINGS, {}, "ns")
