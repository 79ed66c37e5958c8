"""With kubectl's kubeconfigs, the program uses the same credentials, or reports in one line why not."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from anyio import run_process

from e2e.controlplane.processes.binaries import ensure_binaries
from tests.informers.client.certificates import make_authority
from tests.informers.client.login import NAMES, Headers, log_in, login_servers

# kubectl accepts them, and this client says in one line that it does not support the field.
UNSUPPORTED = {
    "auth-provider.yaml": "auth-provider is not supported",
    "key-alone.yaml": "client-certificate and client-key must be given together",
    "proxy-socks.yaml": "proxy-url with scheme 'socks5' is not supported",
    "server-with-password.yaml": "server must not contain a user name",
}


async def _kubectl(kubeconfig: Path, folder: Path) -> bool:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(folder)}
    command = [str(ensure_binaries().kubectl), "get", "--raw", "/version", "--request-timeout=10s"]
    done = await run_process(command, env=environment, check=False)
    return done.returncode == 0


def _comparable(requests: list[Headers]) -> list[Headers]:
    # Compression and the API version of a plugin's input apart: kubectl asks for gzip only.
    return [[item for item in sent if item[0] != "accept-encoding"] for sent in requests]


async def _compare(folder: Path) -> dict[str, str]:
    authority = make_authority(folder / "authority")
    differences: dict[str, str] = {}
    async with login_servers(authority) as servers:
        files = servers.write(folder / "files", authority)
        for name in NAMES:
            accepted = await _kubectl(files / name, folder)
            expected = _comparable(servers.sent())
            refusal = await log_in(str(files / name))
            sent = _comparable(servers.sent())
            if accepted and not (sent == expected or (refusal and UNSUPPORTED.get(name, "?") in refusal)):
                differences[name] = f"kubectl sent {expected}; this client sent {sent}: {refusal}"
            elif not accepted and not refusal:
                differences[name] = "only this client starts"
    return differences


def test_every_kubeconfig_has_the_outcome_that_kubectl_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert anyio.run(_compare, tmp_path) == {}
