"""Runs the credential plugin of a kubeconfig user (client.authentication.k8s.io), cancellable.

The official client cannot cancel a plugin without leaking its process, and blocks forever if the plugin fills
the error pipe first. Invariant: when `run_plugin` returns, raises or is cancelled, the plugin's process has
ended. A plugin gets what kubectl gives it: the cluster if it asks for it, the terminal, and the controller's
own `PATH` to look up its command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime

import anyio
import msgspec
from kubernetes_asyncio.config import ConfigException

from informers.client.kubeconfig import TRUE, Cluster, ExecConfig
from informers.client.yaml_reader import read_yaml

_STDERR_CHARACTERS = 300
_ALWAYS_EXPIRED = datetime.min.replace(tzinfo=UTC)
_NEVER_EXPIRES = datetime.max.replace(tzinfo=UTC)


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """`status` of an `ExecCredential`: a token, or a certificate with its key, and its expiry."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None

    def expires_at(self) -> datetime:
        """Return the expiry, or the latest possible time if there is none. Raises `ConfigException`."""
        text = self.expiration_timestamp
        if not text:
            return _NEVER_EXPIRES
        if text.startswith("0000-"):  # Python has no year 0
            return _ALWAYS_EXPIRED
        try:
            time = datetime.fromisoformat(text)
        except ValueError as error:
            raise ConfigException(f"exec plugin returned an invalid expirationTimestamp {text!r}") from error
        return time if time.tzinfo else time.replace(tzinfo=UTC)


class _ExecCredentialObject(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    status: ExecCredential | None = None


async def run_plugin(config: ExecConfig, cluster: Cluster) -> ExecCredential:
    """Run a plugin, which may ask for information about `cluster`. Raises `ConfigException`."""
    command = config.command
    interactive = config.interactive_mode != "Never" and os.isatty(0)
    if config.interactive_mode == "Always" and not interactive:
        raise ConfigException(f"exec plugin {command!r} has interactiveMode Always and there is no terminal")
    spec: dict[str, object] = {"interactive": interactive}
    if config.provide_cluster_info in TRUE:
        spec["cluster"] = cluster.exec_info()
    info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {item["name"]: item.get("value", "") for item in config.env if item}
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info, enc_hook=str).decode()
    try:
        done = await anyio.run_process(
            # By our own PATH: a plugin's env may have another one, for the plugin only.
            [shutil.which(command) or command, *(arg or "" for arg in config.args)],
            stdin=None if interactive else subprocess.DEVNULL,
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
        answer = _decode(output)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigException(f"exec plugin {command!r} returned no ExecCredential: {error}") from error
    if answer.api_version != api_version:
        raise ConfigException(f"exec plugin {command!r} returned {answer.api_version}, not {api_version}")
    credential = answer.status or ExecCredential()
    if not credential.token and not credential.client_certificate_data and not credential.client_key_data:
        raise ConfigException(f"exec plugin {command!r} returned neither a token nor a client certificate")
    if bool(credential.client_certificate_data) != bool(credential.client_key_data):
        raise ConfigException(f"exec plugin {command!r} returned only one of certificate and key")
    credential.expires_at()
    return credential


def _decode(output: bytes) -> _ExecCredentialObject:
    try:
        return msgspec.json.decode(output, type=_ExecCredentialObject)
    except (msgspec.DecodeError, UnicodeDecodeError):  # kubectl takes YAML as well
        return msgspec.convert(read_yaml(output), _ExecCredentialObject)
