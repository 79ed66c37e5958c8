"""Credentials, and their rotation while requests are in flight."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from informers.client.connection import SessionManager, open_sessions
from informers.client.credentials import Kubeconfig, ServiceAccount, choose_source
from informers.client.transport import KubeApi, connect
from informers.errors import ConfigurationError, Unauthorized, Unreachable
from tests.informers.client.certificates import Authority, make_authority
from tests.informers.client.conftest import kubeconfig
from tests.informers.client.http_client import ALWAYS_REFRESH, only, tokens, until
from tests.informers.client.objects import THINGS, added, thing
from tests.informers.client.server import ScriptedServer, forever, reply, serve, stream

pytestmark = pytest.mark.anyio

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path / "first-ca")


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A service account folder, as the kubelet mounts it."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("one\n")
    return folder


@asynccontextmanager
async def in_cluster(
    folder: Path, server: ScriptedServer, *, refresh_seconds: float = 0.0
) -> AsyncIterator[tuple[KubeApi, SessionManager]]:
    host, port = server.url.removeprefix("https://").split(":")
    source = ServiceAccount(
        token_file=str(folder / "token"),
        ca_file=str(folder / "ca.crt"),
        environ={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port},
    )
    sessions = await open_sessions(source, connections=8, user_agent="test", refresh_seconds=refresh_seconds)
    try:
        yield KubeApi(sessions), sessions
    finally:
        await sessions.aclose()


@needs_openssl
async def test_a1_the_service_account_token_is_reloaded(authority: Authority, account: Path) -> None:
    shutil.copy(authority.ca, account / "ca.crt")
    async with serve(authority.server()) as server, in_cluster(account, server) as (api, _):
        server.answers(reply(thing()))
        await api.get(THINGS, "a", "ns")
        (account / "token").write_text("  two \n")
        await until(lambda: tokens(server)[-1] == "two", api)
    assert tokens(server)[0] == "one"
    assert set(tokens(server)) == {"one", "two"}


@needs_openssl
async def test_a1_a_token_is_reloaded_no_sooner_than_the_refresh_period(
    authority: Authority, account: Path
) -> None:
    shutil.copy(authority.ca, account / "ca.crt")
    async with serve(authority.server()) as server:
        server.answers(reply(thing()))
        async with in_cluster(account, server, refresh_seconds=3600) as (api, sessions):
            for _ in range(20):
                await api.get(THINGS, "a", "ns")
            assert sessions.statistics().renewals == 0


@needs_openssl
async def test_w15_a_rejected_token_is_reloaded_at_once(authority: Authority, account: Path) -> None:
    shutil.copy(authority.ca, account / "ca.crt")
    async with serve(authority.server()) as server:
        server.answers(only("two"))
        async with in_cluster(account, server, refresh_seconds=3600) as (api, _):
            (account / "token").write_text("two")
            assert (await api.create(THINGS, {}, "ns")).metadata.name == "a"
            assert tokens(server) == ["one", "two"]
            (account / "token").write_text("three")
            await api.get(THINGS, "a", "ns")
            assert tokens(server)[2:] == ["two"]
            server.answers(only("four"))
            with pytest.raises(Unauthorized, match="who are you"):
                await api.get(THINGS, "a", "ns")
            assert tokens(server)[3:] == ["two", "three"]


@needs_openssl
async def test_w15_rejected_requests_share_one_reload(authority: Authority, account: Path) -> None:
    shutil.copy(authority.ca, account / "ca.crt")
    async with serve(authority.server()) as server:
        server.answers(only("two"))
        async with in_cluster(account, server, refresh_seconds=3600) as (api, sessions):
            (account / "token").write_text("two")

            async def get() -> None:
                await api.get(THINGS, "a", "ns")

            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(get)
            assert sessions.statistics().renewals == 1


@needs_openssl
@pytest.mark.parametrize("half", ["empty", "missing", "blank", "binary"])
async def test_a2_an_incomplete_rotation_keeps_the_token(
    authority: Authority, account: Path, half: str, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copy(authority.ca, account / "ca.crt")
    async with serve(authority.server()) as server, in_cluster(account, server) as (api, sessions):
        server.answers(reply(thing()))
        if half == "missing":
            (account / "token").unlink()
        else:
            (account / "token").write_bytes({"empty": b"", "blank": b"\n", "binary": b"\xff\x00"}[half])
        await until(lambda: sessions.statistics().failed_renewals > 0, api)
        assert set(tokens(server)) == {"one"}
        assert "kept the current ones" in caplog.text
        (account / "token").write_text("two")
        await until(lambda: tokens(server)[-1] == "two", api)


@needs_openssl
async def test_a3_a_new_ca_applies_to_new_connections_and_interrupts_no_watch(
    authority: Authority, account: Path, tmp_path: Path
) -> None:
    second = make_authority(tmp_path / "second-ca")
    shutil.copy(authority.ca, account / "ca.crt")
    context = authority.server()
    async with serve(context) as server, in_cluster(account, server) as (api, sessions):
        server.answers(stream(added("a"), then=forever))
        async with api.watch(THINGS, resource_version="1", timeout_seconds=300, idle_seconds=60) as events:
            await anext(events)
            server.answers(reply(thing()))
            (account / "ca.crt").write_text("half a file")
            await until(lambda: sessions.statistics().failed_renewals > 0, api)
            context.load_cert_chain(*second.issue("server"))
            (account / "ca.crt").write_bytes(second.ca.read_bytes())
            await until(lambda: sessions.statistics().pools == 2, api)
            # The pool with the new CA needs a new handshake, with a server that has a new certificate.
            await api.get(THINGS, "a", "ns")
        assert sessions.statistics().pools == 1


@needs_openssl
async def test_a_server_with_an_untrusted_certificate_is_unreachable(
    authority: Authority, account: Path, tmp_path: Path
) -> None:
    shutil.copy(make_authority(tmp_path / "other").ca, account / "ca.crt")
    async with serve(authority.server()) as server, in_cluster(account, server) as (api, _):
        with pytest.raises(Unreachable, match="certificate"):
            await api.get(THINGS, "a", "ns")
    assert server.received == []


@needs_openssl
@pytest.mark.parametrize("inline", [True, False])
async def test_client_certificates_from_files_and_inline(
    authority: Authority, tmp_path: Path, *, inline: bool
) -> None:
    certificate, key = authority.issue("client")
    files: dict[str, Path] = {"client-certificate": certificate, "client-key": key}
    user: dict[str, Any] = {name: str(file.relative_to(tmp_path)) for name, file in files.items()}
    cluster: dict[str, Any] = {"certificate-authority": str(authority.ca)}
    if inline:
        user = {f"{name}-data": base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}
        cluster = {"certificate-authority-data": base64.b64encode(authority.ca.read_bytes()).decode()}
    async with serve(authority.server(demand_client_certificate=True)) as server:
        server.answers(reply(thing()))
        file = kubeconfig(tmp_path / "config", server.url, user=user, cluster=cluster)
        async with connect(kubeconfig=str(file)) as api:
            await api.get(THINGS, "a", "ns")
        assert "Authorization" not in server.received[0].headers
        without = kubeconfig(tmp_path / "without", server.url, user={}, cluster=cluster)
        async with connect(kubeconfig=str(without)) as api:
            with pytest.raises(Exception, match=r"(?i)ssl|certificate|reset|disconnected|closed"):
                await api.get(THINGS, "a", "ns")


@needs_openssl
async def test_the_certificate_is_verified_for_the_tls_server_name(
    authority: Authority, tmp_path: Path
) -> None:
    ca = str(authority.ca)
    async with serve(authority.server()) as server:
        server.answers(reply(thing()))
        for name, accepted in (("named.example", True), ("other.example", False)):
            file = kubeconfig(
                tmp_path / name, server.url, cluster={"certificate-authority": ca, "tls-server-name": name}
            )
            async with connect(kubeconfig=str(file)) as api:
                if accepted:
                    await api.get(THINGS, "a", "ns")
                else:
                    with pytest.raises(Unreachable, match="certificate"):
                        await api.get(THINGS, "a", "ns")


async def test_a_token_file_is_stripped_and_reloaded(secure_server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "tok").write_text("one\n")
    secure_server.answers(reply(thing()))
    file = kubeconfig(tmp_path / "config", secure_server.url, user={"tokenFile": "tok"})
    async with connect(kubeconfig=str(file), timeouts=ALWAYS_REFRESH) as api:
        await api.get(THINGS, "a", "ns")
        (tmp_path / "tok").write_text("two\n")
        await until(lambda: tokens(secure_server)[-1] == "two", api)
    assert tokens(secure_server)[0] == "one"


async def test_w15_an_edited_kubeconfig_applies_after_a_401(
    secure_server: ScriptedServer, tmp_path: Path
) -> None:
    secure_server.answers(only("second"))
    file = kubeconfig(tmp_path / "config", secure_server.url)
    async with connect(kubeconfig=str(file)) as api:
        kubeconfig(file, secure_server.url, user={"token": "second"})
        await api.get(THINGS, "a", "ns")
    assert tokens(secure_server) == ["first", "second"]


async def test_basic_authentication(secure_server: ScriptedServer, tmp_path: Path) -> None:
    secure_server.answers(reply(thing()))
    file = kubeconfig(tmp_path / "config", secure_server.url, user={"username": "me", "password": "pass"})
    async with connect(kubeconfig=str(file)) as api:
        await api.get(THINGS, "a", "ns")
    assert secure_server.received[0].headers["Authorization"] == "Basic bWU6cGFzcw=="


@pytest.mark.parametrize(
    ("ca", "message"), [("not a certificate", "not a PEM"), ("", "not a PEM|empty|certificate")]
)
async def test_an_invalid_tls_file_gives_a_one_line_error(tmp_path: Path, ca: str, message: str) -> None:
    (tmp_path / "ca.crt").write_text(ca)
    file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", cluster={"certificate-authority": "ca.crt"})
    with pytest.raises(ConfigurationError, match=message) as caught:
        async with connect(kubeconfig=str(file)):
            pass
    assert str(tmp_path / "ca.crt") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_explicit_kubeconfig_precedes_the_service_account_and_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    one = str(kubeconfig(tmp_path / "one", "http://one"))
    two = str(kubeconfig(tmp_path / "two", "http://two"))
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    def choose(flag: str | None, environ: dict[str, str], context: str | None = None) -> str:
        return repr(choose_source(kubeconfig=flag, context=context, environ=environ))

    assert f"{one}, " in choose(one, {**inside, "KUBECONFIG": two})
    assert f"{two}, " in choose(None, {**inside, "KUBECONFIG": two})
    assert choose(None, inside).startswith("<ServiceAccount")
    assert choose("", {**inside, "KUBECONFIG": ""}).startswith("<ServiceAccount")
    with pytest.raises(ConfigurationError, match=r"~/\.kube/config.*no such file"):
        choose(None, {})
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube" / "config", "http://three")
    assert ".kube/config" in choose(None, {})
    assert ".kube/config" in choose(None, inside, context="here")


async def test_a_missing_service_account_token_gives_a_one_line_error(tmp_path: Path) -> None:
    source = ServiceAccount(
        token_file=str(tmp_path / "token"),
        ca_file=str(tmp_path / "ca.crt"),
        environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
    )
    with pytest.raises(ConfigurationError, match=r"in-cluster configuration .*token") as caught:
        await source.load()
    assert str(tmp_path / "token") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_repr_of_a_source_contains_no_secrets(tmp_path: Path) -> None:
    source = choose_source(kubeconfig=str(kubeconfig(tmp_path / "c", "http://x")), context=None, environ={})
    assert isinstance(source, Kubeconfig)
    assert "first" not in repr(source)


async def test_credentials_are_withheld_from_a_server_without_tls(
    server: ScriptedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers(reply(thing()))
    users: list[dict[str, Any]] = [
        {"token": "SECRET"},
        {"tokenFile": os.devnull},
        {"username": "me", "password": "SECRET"},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}},
        {},
    ]
    for user in users:
        caplog.clear()
        file = kubeconfig(tmp_path / "config", server.url, user=user)
        async with connect(kubeconfig=str(file)) as api:
            await api.get(THINGS, "a", "ns")
        assert "Authorization" not in server.received[-1].headers
        assert ("Withheld credentials" in caplog.text) == bool(user)
        assert "SECRET" not in caplog.text


async def test_an_edited_user_to_act_as_gets_connections_of_its_own(
    secure_server: ScriptedServer, tmp_path: Path
) -> None:
    secure_server.answers(only("second"))
    file = kubeconfig(tmp_path / "config", secure_server.url, user={"token": "first", "as": "a"})
    async with connect(kubeconfig=str(file)) as api:
        kubeconfig(file, secure_server.url, user={"token": "second", "as": "b"})
        await api.get(THINGS, "a", "ns")
    assert [request.headers["Impersonate-User"] for request in secure_server.received] == ["a", "b"]


async def test_an_empty_token_file_leaves_the_token(secure_server: ScriptedServer, tmp_path: Path) -> None:
    secure_server.answers(reply(thing()))
    (tmp_path / "empty").write_text("\n")
    file = kubeconfig(tmp_path / "config", secure_server.url, user={"token": "t", "tokenFile": "empty"})
    async with connect(kubeconfig=str(file)) as api:
        await api.get(THINGS, "a", "ns")
    assert tokens(secure_server) == ["t"]
