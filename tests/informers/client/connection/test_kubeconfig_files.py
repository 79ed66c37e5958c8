"""Every file in `kubeconfigs/` starts with the credentials that kubectl sends, or is refused with one line.

`e2e/test_kubeconfigs.py` asks kubectl itself about the same files.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.informers.client.certificates import Authority
from tests.informers.client.login import NAMES, TOKEN, LoginServers, log_in, login_servers

pytestmark = pytest.mark.anyio

GOOD = {"authorization": "Bearer good"}
NOTHING: dict[str, str] = {}
STARTS: dict[str, dict[str, str]] = {
    "token.yaml": GOOD,
    "tabs.yaml": GOOD,
    "tabs.json": GOOD,
    "looks-typed.yaml": {"authorization": "Bearer 2001-12-14t21:59:43.10-05:00"},
    "nulls.yaml": GOOD,
    "anchors.yaml": GOOD,
    "duplicate-keys.yaml": GOOD,
    "two-documents.yaml": GOOD,
    "tags.yaml": {**GOOD, "impersonate-user": "me"},
    "unknown-fields.yaml": GOOD,
    "others-incomplete.yaml": GOOD,
    "token-file-wins.yaml": {"authorization": f"Bearer {TOKEN}"},
    "token-file-missing.yaml": GOOD,
    "token-before-plugin.yaml": GOOD,
    "password.yaml": {"authorization": f"Basic {b64encode(b'me:se:cret').decode()}"},
    "user-without-password.yaml": {"authorization": f"Basic {b64encode(b'me:').decode()}"},
    "acts-as.yaml": {
        **GOOD,
        "impersonate-user": "system:serviceaccount:a:b",
        "impersonate-uid": "0042-a",
        "impersonate-group": "system:x, team a",
        "impersonate-extra-example.com%2fscope%25": "one, two",
    },
    "http-with-token.yaml": NOTHING,
    "http-with-password.yaml": NOTHING,
    "http-with-plugin.yaml": NOTHING,
    "http-as.yaml": {"impersonate-user": "me"},
    "no-scheme.yaml": NOTHING,
    "server-with-path.yaml": GOOD,
    "no-compression.yaml": {**GOOD, "accept-encoding": "identity"},
    "plugin-environment.yaml": {"authorization": "Bearer 4-1:30--2:30-2024-01-01-"},
    "plugin-answers-yaml.yaml": GOOD,
    "plugin-answers-nulls.yaml": GOOD,
    "plugin-answers-zero.yaml": GOOD,
    "plugin-answers-last.yaml": GOOD,
    "plugin-answers-year-zero.yaml": GOOD,
    "plugin-answers-fraction.yaml": GOOD,
    "proxy-http.yaml": GOOD,
    "proxy-https.yaml": GOOD,
}
REFUSED = {
    "proxy-socks.yaml": "proxy-url with scheme 'socks5' is not supported",
    "proxy-no-scheme.yaml": "proxy-url is not an http:// or https:// URL",
    "auth-provider.yaml": "auth-provider is not supported",
    "ca-and-insecure.yaml": "certificate-authority and insecure-skip-tls-verify cannot both be set",
    "server-with-password.yaml": "server must not contain a user name",
    "groups-without-user.yaml": "as-uid, as-groups and as-user-extra need as",
    "token-and-password.yaml": "token and username cannot both be set",
    "key-alone.yaml": "client-certificate and client-key must be given together",
    "no-server.yaml": "server '' is not an http:// or https:// URL",
    "no-context.yaml": "current-context is not set; defined: 'here'",
    "plugin-v1alpha1.yaml": "exec: apiVersion 'client.authentication.k8s.io/v1alpha1' is not supported",
    "plugin-needs-terminal.yaml": "has interactiveMode Always and there is no terminal",
}
PLUGIN_INPUTS = {"plugin-cluster.yaml", "plugin-no-cluster.yaml"}


@pytest.fixture
async def servers(authority: Authority) -> AsyncIterator[LoginServers]:
    async with login_servers(authority) as running:
        yield running


@pytest.fixture
def folder(servers: LoginServers, authority: Authority, tmp_path: Path) -> Path:
    return servers.write(tmp_path / "files", authority)


def test_every_file_has_an_outcome() -> None:
    assert set(NAMES) == {*STARTS, *REFUSED, *PLUGIN_INPUTS}


@pytest.mark.parametrize("name", STARTS)
async def test_the_file_starts_with_the_credentials_that_kubectl_sends(
    name: str, servers: LoginServers, folder: Path
) -> None:
    assert await log_in(str(folder / name)) == ""
    (sent,) = servers.sent()
    joined: dict[str, str] = {}
    for header, value in sent:
        joined[header] = f"{joined[header]}, {value}" if header in joined else value
    assert joined == STARTS[name]
    if name.startswith("proxy-"):
        assert servers.proxied == ["Proxy-Authorization: Basic dTpwQA==" if "http." in name else ""]


@pytest.mark.parametrize("name", REFUSED)
async def test_the_file_is_refused_with_one_line(name: str, servers: LoginServers, folder: Path) -> None:
    line = await log_in(str(folder / name))
    assert REFUSED[name] in line
    assert "\n" not in line
    assert "secret@" not in line
    assert servers.sent() == []


async def test_a_plugin_gets_the_cluster_if_it_asks_for_it(
    servers: LoginServers, folder: Path, authority: Authority
) -> None:
    for name in sorted(PLUGIN_INPUTS):
        assert await log_in(str(folder / name)) == ""
    inputs = [json.loads(dict(sent)["authorization"])["spec"] for sent in servers.sent()]
    assert inputs[1] == {"interactive": False}
    assert inputs[0]["cluster"] == {
        "server": f"{servers.secure.url}/path/",
        "certificate-authority-data": b64encode(authority.ca.read_bytes()).decode(),
        "tls-server-name": "named.example",
        "disable-compression": True,
        "config": {
            "audience": "https://login.example",
            "scopes": [1, 1.5, 16, 8, "6", "yes", False, "text", "1:30", "2024-01-01", None, {"deep": True}],
            "empty": {},
        },
    }


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
async def test_the_byte_order_mark_selects_the_encoding(
    encoding: str, servers: LoginServers, folder: Path
) -> None:
    for name in ("token.yaml", "tabs.json"):
        file = folder / name
        file.write_bytes(file.read_text().replace("\n", "\r\n").encode(encoding))
        assert await log_in(str(file)) == ""
        assert servers.sent() == [[("authorization", "Bearer good")]]


@pytest.mark.parametrize("nothing", ["", "\n", "# nothing\n", "---\n", "null\n", "{}\n", "---\n---\na: b\n"])
async def test_files_with_nothing_in_them_and_absent_files_set_nothing(
    nothing: str, servers: LoginServers, folder: Path
) -> None:
    (folder / "empty").write_text(nothing)
    files = ["", "empty", "absent", "token.yaml", "empty", "token-file-wins.yaml", "token.yaml", ""]
    assert await log_in(os.pathsep.join(str(folder / name) if name else "" for name in files)) == ""
    assert servers.sent() == [[("authorization", "Bearer good")]]
    assert (await log_in(str(folder / "empty"))).endswith("current-context is not set; none is defined")


async def test_relative_paths_in_kubeconfig_and_in_its_files(
    servers: LoginServers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    for name in ("token-file-wins.yaml", "plugin-answers-nulls.yaml"):
        assert await log_in(f"{folder.name}/{name}") == ""
    assert len(servers.sent()) == 2
