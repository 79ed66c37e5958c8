"""Loads server address and credentials from a kubeconfig or a service account.

Everything that may change while the process runs (token, certificates, CA) is read again by its
`ConfigSource`. Invariant: a source returns a complete, usable `ClientConfig` or raises `ConfigurationError`.
An incomplete rotation (a token file missing or empty for a moment) is such an error: the caller then keeps
its current configuration. For a server without TLS no credentials are read and no plugin runs, as in kubectl.

Not done here: deciding when to rotate (`informers.client.connection`).
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import anyio
from anyio import to_thread
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes_asyncio.config.kube_config import FileOrData

from informers.client.exec_plugin import ExecCredential, run_plugin
from informers.client.kubeconfig import TRUE, SelectedContext, User, select_context
from informers.errors import ConfigurationError

logger = logging.getLogger(__name__)

DEFAULT_KUBECONFIG = "~/.kube/config"

# Long enough for a plugin that opens a browser; the official client has no limit.
LOGIN_SECONDS = 60.0

# A new credential is requested this long before the old one expires: clocks differ, and plugins are slow.
RENEW_AHEAD = timedelta(minutes=5)

_LOAD_ERRORS = (ConfigException, OSError, ValueError, RecursionError, OverflowError)

# What Go accepts unescaped in the name of a header.
_HEADER_NAME = "!#$&'*+-.^_`|~"


@dataclass(frozen=True)
class ClientConfig:
    """Everything a connection needs. `pool_digest` changes exactly when a new pool is needed.

    `headers` are sent with each request: the impersonated user, and whether responses may be compressed.
    """

    configuration: Configuration = field(repr=False, compare=False)
    authorization: str = field(repr=False)
    pool_digest: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class ConfigSource(Protocol):
    """A place to read a `ClientConfig` from, as often as needed."""

    async def load(self) -> ClientConfig:
        """Read everything from scratch. Raises `ConfigurationError`."""

    async def refresh(self) -> ClientConfig:
        """Read again the parts that expire or rotate. Raises `ConfigurationError`."""


def choose_source(
    *, kubeconfig: str | None, context: str | None, environ: Mapping[str, str] = os.environ
) -> ConfigSource:
    """Return `kubeconfig` or `KUBECONFIG`, else the Pod's service account, else the default kubeconfig.

    A `context` implies a kubeconfig. Raises `ConfigurationError` with one line.
    """
    files = kubeconfig or environ.get("KUBECONFIG")
    if not files and not context and environ.get(SERVICE_HOST_ENV_NAME):
        return ServiceAccount(environ=environ)
    return Kubeconfig(select_context(files or DEFAULT_KUBECONFIG, context))


class ServiceAccount:
    """The token and CA that the kubelet mounts into a Pod and rotates."""

    def __init__(
        self,
        *,
        token_file: str = SERVICE_TOKEN_FILENAME,
        ca_file: str = SERVICE_CERT_FILENAME,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._token_file = token_file
        self._ca_file = ca_file
        self._environ = dict(environ)

    def __repr__(self) -> str:
        return f"<ServiceAccount token={self._token_file} ca={self._ca_file}>"

    async def load(self) -> ClientConfig:
        """Read token and CA in a thread."""
        return await to_thread.run_sync(self._read)

    refresh = load

    def _read(self) -> ClientConfig:
        configuration = Configuration()
        # The client's own reload reads on the event loop and lets a half-written file fail a request.
        loader = InClusterConfigLoader(
            self._token_file, self._ca_file, try_refresh_token=False, environ=self._environ
        )
        try:
            loader.load_and_set(configuration)
            return _client_config(configuration, _bearer(loader.token.removeprefix("Bearer ")))
        except _LOAD_ERRORS as error:
            files = f"token {self._token_file}, CA {self._ca_file}"
            raise ConfigurationError(f"in-cluster configuration ({files}): {_one_line(error)}") from error


class Kubeconfig:
    """One context of a kubeconfig: a token, token file, password, certificate or credential plugin."""

    def __init__(self, selected: SelectedContext) -> None:
        self._selected = selected
        self._credential: ExecCredential | None = None

    def __repr__(self) -> str:
        return f"<Kubeconfig {self._selected}>"

    async def load(self) -> ClientConfig:
        """Read the kubeconfig and run its credential plugin, if any."""
        selected = await to_thread.run_sync(self._selected.read_again)
        config = await self._login(selected, None)
        if not selected.cluster.is_tls and (selected.user.exec or selected.user.has_static_credentials):
            server = {"server": selected.cluster.server}
            logger.warning("Withheld credentials from a server without TLS", extra=server)
        return config

    async def refresh(self) -> ClientConfig:
        """Read again the files that the kubeconfig names; run the plugin if its credential expires soon."""
        return await self._login(self._selected, self._credential)

    async def _login(self, selected: SelectedContext, credential: ExecCredential | None) -> ClientConfig:
        cluster, user = selected.cluster, selected.user
        # Adding to the present cannot overflow, subtracting from an expiry at the end of its range can.
        is_due = credential is None or datetime.now(UTC) + RENEW_AHEAD >= credential.expires_at()
        try:
            if is_due and cluster.is_tls and user.exec is not None and not user.has_static_credentials:
                with anyio.fail_after(LOGIN_SECONDS):
                    credential = await run_plugin(user.exec, cluster)
            config = await to_thread.run_sync(_configure, selected, credential or ExecCredential())
        except TimeoutError as error:
            reason = f"the login by credential plugin took more than {LOGIN_SECONDS:g} s"
            raise ConfigurationError(f"kubeconfig {selected}: {reason}") from error
        except _LOAD_ERRORS as error:
            raise ConfigurationError(f"kubeconfig {selected}: {_one_line(error)}") from error
        self._selected, self._credential = selected, credential
        return config


def _configure(selected: SelectedContext, credential: ExecCredential) -> ClientConfig:
    """Read the files of `selected` and combine them with a plugin's credential."""
    cluster, user = selected.cluster, selected.user
    configuration = Configuration()
    configuration.host = cluster.url
    configuration.proxy = cluster.proxy_url or None
    authorization = ""
    if cluster.is_tls:
        configuration.verify_ssl = cluster.insecure_skip_tls_verify not in TRUE
        configuration.tls_server_name = cluster.tls_server_name or None
        authority, authority_data = cluster.certificate_authority, cluster.certificate_authority_data
        configuration.ssl_ca_cert = _pem_file(authority, authority_data)
        certificate, key = credential.client_certificate_data, credential.client_key_data
        if certificate and key:
            configuration.cert_file = _pem_file("", certificate, base64_encoded=False)
            configuration.key_file = _pem_file("", key, base64_encoded=False)
        else:
            configuration.cert_file = _pem_file(user.client_certificate, user.client_certificate_data)
            configuration.key_file = _pem_file(user.client_key, user.client_key_data)
        authorization = _authorization(user, credential)
    headers = _impersonation(user)
    if cluster.disable_compression in TRUE:
        headers += (("Accept-Encoding", "identity"),)
    return _client_config(configuration, authorization, headers)


def _authorization(user: User, credential: ExecCredential) -> str:
    if user.username:
        pair = f"{user.username}:{user.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    token = user.token or credential.token
    if user.token_file:
        try:
            token = Path(user.token_file).read_text().strip() or token
        except (OSError, ValueError):
            if not token:
                raise
    return _bearer(token) if token or user.token_file else ""


def _bearer(token: str | None) -> str:
    secret = (token or "").strip()
    if not secret:
        raise ConfigException("the token is empty")
    if not secret.isprintable():
        raise ConfigException("the token is not a single line of text")
    return f"Bearer {secret}"


def _impersonation(user: User) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.as_user)] if user.as_user else []
    headers += [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    headers += [("Impersonate-Group", group or "") for group in user.as_groups]
    for key, values in user.as_user_extra.items():
        name = f"Impersonate-Extra-{quote(key, safe=_HEADER_NAME)}"
        headers += [(name, value or "") for value in values]
    return tuple(headers)


def _pem_file(path: str, data: str, *, base64_encoded: bool = True) -> str | None:
    if not data:
        return path or None
    # TLS contexts are loaded from files; the client keeps such files until the process ends.
    content = FileOrData({"data": data}, "", data_key_name="data", base64_file_content=base64_encoded)
    return str(content.as_file())


def _client_config(
    configuration: Configuration, authorization: str, headers: tuple[tuple[str, str], ...] = ()
) -> ClientConfig:
    # Go has no such checks, and many clusters have CAs without the extensions that they ask for.
    configuration.disable_strict_ssl_verification = True
    return ClientConfig(configuration, authorization, _digest(configuration, headers), headers)


def _digest(configuration: Configuration, headers: object) -> str:
    host, server_name, proxy = configuration.host, configuration.tls_server_name, configuration.proxy
    settings = (host, server_name, proxy, configuration.verify_ssl, headers)
    digest = hashlib.sha256(repr(settings).encode())
    for file in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        content = Path(file).read_bytes() if file else b""
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
