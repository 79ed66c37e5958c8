"""Runs the credential plugin of a kubeconfig user (client.authentication.k8s.io), cancellable.

The official client runs plugins as well, but cannot be cancelled without leaving the process behind,
and waits for ever when a plugin fills the error pipe first. So its loader gets this instead. The
invariant: when `run_plugin` returns, raises or is cancelled, the plugin's process has ended.

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

# A new credential is asked for this long before the old one ends; clocks differ, and plugins are slow.
RENEW_AHEAD = timedelta(minutes=5)

_STDERR_CHARACTERS = 300


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """What a plugin gives: a token or a certificate with its key, and the time until which it is good."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    status: ExecCredential


class Loader(KubeConfigLoader):
    """The official client's loader of one context, with the plugin run by `run_plugin`."""

    def __init__(self, choice: SelectedContext, now: Callable[[], datetime]) -> None:
        files = KubeConfigMerger(os.pathsep.join(map(str, choice.paths)))
        super().__init__(config_dict=files.config, active_context=choice.context, config_base_path=None)
        self._now = now
        self._expires: datetime | None = None
        self._has_run = False

    async def load_from_exec_plugin(self) -> bool:
        """Run the plugin, unless what it gave last time is still good, as one without an end always is."""
        if self._has_run and (self._expires is None or self._now() < self._expires - RENEW_AHEAD):
            return True
        user = self._user
        if user is None:
            return False
        try:
            config = msgspec.convert(user["exec"].value, ExecConfig)
        except msgspec.ValidationError as error:
            raise ConfigException(f"exec: {error}") from error
        status = await run_plugin(config, Path(user.path or ".").parent)
        self._expires = parse_rfc3339(status.expiration_timestamp) if status.expiration_timestamp else None
        if status.token:
            self.token = f"Bearer {status.token}"
        if status.client_certificate_data:
            self.cert_file: str | None = _file(status, "client_certificate_data")
            self.key_file: str | None = _file(status, "client_key_data")
        self._has_run = True
        return True


async def run_plugin(config: ExecConfig, folder: Path) -> ExecCredential:
    """Run a plugin; a path to it is relative to `folder`. Raises `ConfigException`."""
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
        said = done.stderr.decode(errors="replace").strip()[-_STDERR_CHARACTERS:]
        raise ConfigException(f"exec plugin {command!r} failed with exit status {done.returncode}: {said}")
    return _read(command, config.api_version, done.stdout)


def _read(command: str, api_version: str, output: bytes) -> ExecCredential:
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigException(f"exec plugin {command!r} gave no ExecCredential: {error}") from error
    if credential.api_version != api_version:
        raise ConfigException(f"exec plugin {command!r} speaks {credential.api_version}, not {api_version}")
    status = credential.status
    if not status.token and not status.client_certificate_data:
        raise ConfigException(f"exec plugin {command!r} gave neither a token nor a client certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ConfigException(f"exec plugin {command!r} gave only one of certificate and key")
    return status


def _file(status: ExecCredential, field: str) -> str:
    # TLS contexts are loaded from files; the client keeps such files until the process ends.
    holder = FileOrData({field: getattr(status, field)}, "", data_key_name=field, base64_file_content=False)
    return str(holder.as_file())


def utc_now() -> datetime:
    """The wall clock, which is what credentials expire by."""
    return datetime.now(UTC)
