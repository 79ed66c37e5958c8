"""Runs the credential plugin of a kubeconfig user (client.authentication.k8s.io), cancellable.

The official client cannot cancel a plugin without leaking its process, and blocks forever if the plugin fills
the error pipe first. Its loader therefore uses this module instead. Invariant: when `run_plugin` returns,
raises or is cancelled, the plugin's process has ended.

Cluster information (`provideClusterInfo`) is not passed on; the terminal is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import msgspec
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.dateutil import parse_rfc3339
from kubernetes_asyncio.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from informers.client.kubeconfig import ExecConfig, SelectedContext

# A new credential is requested this long before the old one expires: clocks differ, and plugins are slow.
RENEW_AHEAD = timedelta(minutes=5)

_STDERR_CHARACTERS = 300


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """`status` of an `ExecCredential`: a token, or a certificate with its key, and its expiry."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _ExecCredentialObject(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    status: ExecCredential


class Loader(KubeConfigLoader):
    """The official client's loader of one context, with the plugin run by `run_plugin`."""

    def __init__(self, selected: SelectedContext, now: Callable[[], datetime]) -> None:
        files = KubeConfigMerger(os.pathsep.join(map(str, selected.paths)))
        super().__init__(config_dict=files.config, active_context=selected.context, config_base_path=None)
        self._now = now
        self._expires_at: datetime | None = None
        self._has_run = False

    async def load_from_exec_plugin(self) -> bool:
        """Run the plugin unless its last credential is still valid; one without an expiry always is."""
        if self._has_run and (self._expires_at is None or self._now() < self._expires_at - RENEW_AHEAD):
            return True
        user = self._user
        if user is None:
            return False
        try:
            config = msgspec.convert(user["exec"].value, ExecConfig)
        except msgspec.ValidationError as error:
            raise ConfigException(f"exec: {error}") from error
        credential = await run_plugin(config, Path(user.path or ".").parent)
        expiry = credential.expiration_timestamp
        self._expires_at = parse_rfc3339(expiry) if expiry else None
        if credential.token:
            self.token = f"Bearer {credential.token}"
        if credential.client_certificate_data:
            self.cert_file: str | None = _file(credential, "client_certificate_data")
            self.key_file: str | None = _file(credential, "client_key_data")
        self._has_run = True
        return True


async def run_plugin(config: ExecConfig, folder: Path) -> ExecCredential:
    """Run a plugin. A path in its command is relative to `folder`. Raises `ConfigException`."""
    command = str(folder / config.command) if os.sep in config.command else config.command
    info = {
        "apiVersion": config.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": sys.stdin.isatty()},
    }
    environment = {variable.name: variable.value for variable in config.env or ()}
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
    try:
        done = await anyio.run_process(
            [command, *(config.args or ())],
            stdin=None if sys.stdin.isatty() else subprocess.DEVNULL,
            env={**os.environ, **environment},
            check=False,
        )
    except OSError as error:
        hint = f"; {config.install_hint}" if config.install_hint else ""
        raise ConfigException(f"exec plugin {command!r} cannot be run: {error.strerror}{hint}") from error
    if done.returncode != 0:
        stderr = done.stderr.decode(errors="replace").strip()[-_STDERR_CHARACTERS:]
        raise ConfigException(f"exec plugin {command!r} failed with exit status {done.returncode}: {stderr}")
    return _read(command, config.api_version, done.stdout)


def _read(command: str, api_version: str, output: bytes) -> ExecCredential:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredentialObject)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigException(f"exec plugin {command!r} returned no ExecCredential: {error}") from error
    if answer.api_version != api_version:
        raise ConfigException(f"exec plugin {command!r} returned {answer.api_version}, not {api_version}")
    credential = answer.status
    if not credential.token and not credential.client_certificate_data:
        raise ConfigException(f"exec plugin {command!r} returned neither a token nor a client certificate")
    if bool(credential.client_certificate_data) != bool(credential.client_key_data):
        raise ConfigException(f"exec plugin {command!r} returned only one of certificate and key")
    return credential


def _file(credential: ExecCredential, field: str) -> str:
    # TLS contexts are loaded from files; the client keeps such files until the process ends.
    data = {field: getattr(credential, field)}
    return str(FileOrData(data, "", data_key_name=field, base64_file_content=False).as_file())


def utc_now() -> datetime:
    """Return the wall clock time, which the expiry of credentials refers to."""
    return datetime.now(UTC)
