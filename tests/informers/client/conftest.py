"""Fixtures: both event loops, a scripted server, and an API connected to it through a kubeconfig."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from informers.client.transport import KubeApi, Timeouts, connect
from tests.informers.client.certificates import Authority, make_authority
from tests.informers.client.server import ScriptedServer, serve

SHORT = Timeouts(request_seconds=0.3, list_seconds=0.3, connect_seconds=0.1)

Connect = Callable[..., AbstractAsyncContextManager[KubeApi]]


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    backend: tuple[str, dict[str, Any]] = request.param
    return backend


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def kubeconfig(
    path: Path,
    server: str,
    *,
    user: dict[str, Any] | None = None,
    cluster: Mapping[str, object] = MappingProxyType({}),
) -> Path:
    """Write a kubeconfig with one context, `here`; without a CA it accepts any certificate."""
    if server.startswith("https:") and not any(key.startswith("certificate-authority") for key in cluster):
        cluster = {"insecure-skip-tls-verify": True, **cluster}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "first"} if user is None else user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with serve() as running:
        yield running


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA for the tests that only need a server with TLS."""
    if shutil.which("openssl") is None:
        pytest.skip("makes certificates with openssl")
    return make_authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture
async def secure_server(authority: Authority) -> AsyncIterator[ScriptedServer]:
    """A server with TLS: no credentials are sent to one without."""
    async with serve(authority.server()) as running:
        yield running


@pytest.fixture
def connect_to(tmp_path: Path) -> Connect:
    """`connect_to(url, **options)`: an API for the server at `url`, with long timeouts by default."""

    def connect_to(url: str, **options: Any) -> AbstractAsyncContextManager[KubeApi]:
        return connect(kubeconfig=str(kubeconfig(tmp_path / "config", url)), **options)

    return connect_to


@pytest.fixture
async def api(server: ScriptedServer, connect_to: Connect) -> AsyncIterator[KubeApi]:
    async with connect_to(server.url) as connected:
        yield connected


@pytest.fixture
def connect_briefly(connect_to: Connect) -> Connect:
    """Like `connect_to`, with timeouts that a test can wait for."""
    return partial(connect_to, timeouts=SHORT)
