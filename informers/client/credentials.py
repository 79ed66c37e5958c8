"""Loads server address and credentials from a kubeconfig or a service account, with the official client.

Everything that may change while the process runs (token, certificates, CA) is read again by its
`ConfigSource`. Invariant: a source returns a complete, usable `ClientConfig` or raises `ConfigurationError`.
An incomplete rotation (a token file missing or empty for a moment) is such an error: the caller then keeps
its current configuration.

Not done here: deciding when to rotate (`informers.client.connection`), and writing refreshed OIDC tokens back
to the kubeconfig.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import aiohttp
import anyio
import yaml
from anyio import to_thread
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from informers.client.exec_plugin import Loader, utc_now
from informers.client.kubeconfig import SelectedContext, select_context
from informers.errors import ConfigurationError

DEFAULT_KUBECONFIG = "~/.kube/config"

# Long enough for a plugin that opens a browser; the official client has no limit.
LOGIN_SECONDS = 60.0

# Errors of the official client for a malformed file or plugin response. Most have no type of their own.
_LOAD_ERRORS = (
    ConfigException,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    yaml.YAMLError,
    aiohttp.ClientError,
)


@dataclass(frozen=True)
class ClientConfig:
    """Everything a connection needs. `tls_digest` changes exactly when CA, certificate or key change."""

    configuration: Configuration = field(repr=False, compare=False)
    authorization: str = field(repr=False)
    tls_digest: str


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
            return _client_config(configuration)
        except _LOAD_ERRORS as error:
            files = f"token {self._token_file}, CA {self._ca_file}"
            raise ConfigurationError(f"in-cluster configuration ({files}): {_one_line(error)}") from error


class Kubeconfig:
    """One context of a kubeconfig: a token, token file, certificate, credential plugin or OIDC login."""

    def __init__(self, selected: SelectedContext, *, now: Callable[[], datetime] = utc_now) -> None:
        self._selected = selected
        self._now = now
        self._loader: Loader | None = None

    def __repr__(self) -> str:
        return f"<Kubeconfig {self._selected}>"

    async def load(self) -> ClientConfig:
        """Read the kubeconfig and run its credential plugin, if any."""
        with self._mapped_errors():
            loader = Loader(self._selected, self._now)
            config = await self._load_with(loader)
        self._loader = loader
        return config

    async def refresh(self) -> ClientConfig:
        """Read the files that it names; run the plugin if its credential is about to expire."""
        if self._loader is None:
            return await self.load()
        with self._mapped_errors():
            return await self._load_with(self._loader)

    async def _load_with(self, loader: Loader) -> ClientConfig:
        configuration = Configuration()
        with anyio.fail_after(LOGIN_SECONDS):
            await loader.load_and_set(configuration)
        return _client_config(configuration)

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            reason = f"the login by credential plugin or OIDC took more than {LOGIN_SECONDS:g} s"
            raise ConfigurationError(f"kubeconfig {self._selected}: {reason}") from error
        except _LOAD_ERRORS as error:
            raise ConfigurationError(f"kubeconfig {self._selected}: {_one_line(error)}") from error


def _client_config(configuration: Configuration) -> ClientConfig:
    # The client stores every scheme here, including basic authentication, and does not strip file contents.
    scheme, _, secret = str(configuration.api_key.get("BearerToken", "")).partition(" ")
    secret = secret.strip()
    if scheme and not secret:
        raise ConfigException("the token is empty")
    if not secret.isprintable():
        raise ConfigException("the token is not a single line of text")
    return ClientConfig(configuration, f"{scheme} {secret}".strip(), _digest(configuration))


def _digest(configuration: Configuration) -> str:
    digest = hashlib.sha256()
    for file in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        content = Path(file).read_bytes() if file else b""
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if isinstance(error, LookupError) or not text else text
