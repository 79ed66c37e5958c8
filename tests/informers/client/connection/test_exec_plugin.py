"""Credential plugins: when they run, and their failures."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from informers.client.transport import connect
from informers.errors import ConfigurationError
from tests.informers.client.certificates import make_authority
from tests.informers.client.conftest import kubeconfig
from tests.informers.client.http_client import ALWAYS_REFRESH, only, tokens, until
from tests.informers.client.objects import THINGS, thing
from tests.informers.client.server import ScriptedServer, reply, serve

pytestmark = pytest.mark.anyio


def plugin(folder: Path, body: str) -> dict[str, Any]:
    """A user with a credential plugin; `body` has the number of the run in `run`."""
    script = folder / "plugin.py"
    script.write_text(
        "import json, os, pathlib, sys\n"
        "log = pathlib.Path(__file__).with_suffix('.log')\n"
        "runs = log.read_text() if log.exists() else ''\n"
        "log.write_text(runs + '.')\n"
        "run = len(runs) + 1\n"
        "version = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['apiVersion']\n"
        "def give(**status):\n"
        "    print(json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status}))\n" + body
    )
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}


def runs(folder: Path) -> int:
    return len((folder / "plugin.log").read_text())


async def test_a_credential_plugin_runs_once_and_again_after_a_401(
    secure_server: ScriptedServer, tmp_path: Path
) -> None:
    secure_server.answers(only("token-1"))
    file = kubeconfig(
        tmp_path / "config", secure_server.url, user=plugin(tmp_path, "give(token=f'token-{run}')\n")
    )
    async with connect(kubeconfig=str(file), timeouts=ALWAYS_REFRESH) as api:
        for _ in range(5):
            await api.get(THINGS, "a", "ns")
        assert runs(tmp_path) == 1
        secure_server.answers(only("token-2"))
        await api.get(THINGS, "a", "ns")
        assert runs(tmp_path) == 2


async def test_a_credential_plugin_runs_again_before_its_token_expires(
    secure_server: ScriptedServer, tmp_path: Path
) -> None:
    secure_server.answers(reply(thing()))
    body = (
        "year = 2001 if run < 2 else 2999\n"
        "give(token=f'token-{run}', expirationTimestamp=f'{year}-01-01T00:00:00Z')\n"
    )
    file = kubeconfig(tmp_path / "config", secure_server.url, user=plugin(tmp_path, body))
    async with connect(kubeconfig=str(file), timeouts=ALWAYS_REFRESH) as api:
        await until(lambda: bool(secure_server.received) and tokens(secure_server)[-1] == "token-2", api)
        for _ in range(5):
            await api.get(THINGS, "a", "ns")
    assert runs(tmp_path) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit('no login')\n", "no login"),
        ("print('hello')\n", "returned no ExecCredential"),
        ("give(nothing=1)\n", "neither a token nor a client certificate"),
        ("print('{}')\n", "missing required field"),
        ("give(token='a\\nb')\n", "single line"),
    ],
)
async def test_a_failing_credential_plugin_gives_a_one_line_error(
    tmp_path: Path, body: str, message: str
) -> None:
    file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user=plugin(tmp_path, body))
    with pytest.raises(ConfigurationError, match=message) as caught:
        async with connect(kubeconfig=str(file)):
            pass
    assert str(caught.value).startswith(f"kubeconfig {file}, context 'here': ")
    assert "\n" not in str(caught.value)


async def test_a_hanging_credential_plugin_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("informers.client.credentials.LOGIN_SECONDS", 0.5)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["5"]}}
    file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user=user)
    with pytest.raises(ConfigurationError, match=r"took more than 0\.5 s"):
        async with connect(kubeconfig=str(file)):
            pass


async def test_a_missing_credential_plugin_is_named(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
    file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user=user)
    with pytest.raises(ConfigurationError, match="no-such-plugin"):
        async with connect(kubeconfig=str(file)):
            pass


async def test_requests_do_not_wait_for_a_refresh_and_closing_ends_it(
    secure_server: ScriptedServer, tmp_path: Path
) -> None:
    secure_server.answers(reply(thing()))
    body = (
        "if run > 1:\n"
        "    import time; time.sleep(50)\n"
        "give(token='t', expirationTimestamp='2001-01-01T00:00:00Z')\n"
    )
    file = kubeconfig(tmp_path / "config", secure_server.url, user=plugin(tmp_path, body))
    with anyio.fail_after(20):
        async with connect(kubeconfig=str(file), timeouts=ALWAYS_REFRESH) as api:
            for _ in range(5):
                await api.get(THINGS, "a", "ns")
    assert len(secure_server.received) == 5


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
async def test_a_credential_plugin_may_return_a_client_certificate(tmp_path: Path) -> None:
    authority = make_authority(tmp_path / "ca")
    certificate, key = authority.issue("client")
    body = (
        f"give(clientCertificateData=pathlib.Path({str(certificate)!r}).read_text(),\n"
        f"     clientKeyData=pathlib.Path({str(key)!r}).read_text())\n"
    )
    async with serve(authority.server(demand_client_certificate=True)) as server:
        server.answers(reply(thing()))
        cluster = {"certificate-authority": str(authority.ca)}
        file = kubeconfig(tmp_path / "config", server.url, user=plugin(tmp_path, body), cluster=cluster)
        async with connect(kubeconfig=str(file), timeouts=ALWAYS_REFRESH) as api:
            for _ in range(3):
                await api.get(THINGS, "a", "ns")
            assert api.statistics().session.pools == 1
    assert runs(tmp_path) == 1


async def test_a_credential_plugin_is_asked_again_if_its_token_has_always_been_expired(
    secure_server: ScriptedServer, tmp_path: Path
) -> None:
    secure_server.answers(reply(thing()))
    body = (
        "year = '0001' if run < 3 else '2999'\n"
        "give(token=f'token-{run}', expirationTimestamp=f'{year}-01-01T00:00:00Z')\n"
    )
    file = kubeconfig(tmp_path / "config", secure_server.url, user=plugin(tmp_path, body))
    async with connect(kubeconfig=str(file), timeouts=ALWAYS_REFRESH) as api:
        await until(lambda: bool(secure_server.received) and tokens(secure_server)[-1] == "token-3", api)


@pytest.mark.parametrize("expiry", ["soon", "10000-01-01T00:00:00Z", "2024-13-01T00:00:00Z", "1e9"])
async def test_an_expiry_that_is_no_time_gives_a_one_line_error(tmp_path: Path, expiry: str) -> None:
    user = plugin(tmp_path, f"give(token='t', expirationTimestamp={expiry!r})\n")
    file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user=user)
    with pytest.raises(ConfigurationError, match=f"invalid expirationTimestamp {expiry!r}"):
        async with connect(kubeconfig=str(file)):
            pass


async def test_the_command_is_found_by_our_own_path(
    secure_server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure_server.answers(reply(thing()))
    user = plugin(tmp_path, "give(token=os.environ['PATH'])\n")
    command = tmp_path / "bin" / "my-login"
    command.parent.mkdir()
    command.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    user["exec"] |= {"command": "my-login", "env": [{"name": "PATH", "value": "/nowhere"}]}
    file = kubeconfig(tmp_path / "config", secure_server.url, user=user)
    async with connect(kubeconfig=str(file)) as api:
        await api.get(THINGS, "a", "ns")
    assert tokens(secure_server) == ["/nowhere"]


async def test_a_plugin_that_is_missing_or_not_executable_is_named_with_its_hint(tmp_path: Path) -> None:
    (tmp_path / "login").write_text("#!/bin/sh\n")
    for command, reason in (
        ("./login", "Permission denied"),
        ("./none", "No such file"),
        ("none", "No such file"),
    ):
        user = plugin(tmp_path, "")
        user["exec"] |= {"command": command, "installHint": "Run this:\n  get login"}
        file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user=user)
        with pytest.raises(ConfigurationError, match=f"{reason}.*; Run this: get login"):
            async with connect(kubeconfig=str(file)):
                pass
