"""Where the server is and who we are: from a kubeconfig or a Pod's service account, by the official client.

Everything that can change while the process runs (token, certificates, CA) is read again by its
`ConfigSource`. The invariant: a source hands out a complete, usable `ClientConfig` or raises
`ConfigurationError`; half a rotation (a token file that is missing or empty for a moment) is such an
error, so whoever holds the previous material keeps it.

Rotation is decided in `informers.client.connection`. Refreshed OIDC tokens are not written back to the
kubeconfig.
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
from informers.client.kubeconfig import SelectedContext, check
from informers.errors import ConfigurationError

DEFAULT_KUBECONFIG = "~/.kube/config"

# Long enough for a plugin that opens a browser; the official client would wait without end.
LOGIN_SECONDS = 60.0

# What loading raises for a file or a plugin's answer that is not as it should be. It has no error
# type of its own for most of these.
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
    """All that a connection needs. `tls_digest` changes exactly when the CA, certificate or key do."""

    configuration: Configuration = field(repr=False)
    authorization: str = field(repr=False)
    tls_digest: str


class ConfigSource(Protocol):
    """A place that material can be read from, as often as needed."""

    async def load(self) -> ClientConfig:
        """Read everything from scratch. Raises `ConfigurationError`."""

    async def refresh(self) -> ClientConfig:
        """Read again what may have expired or been rotated. Raises `ConfigurationError`."""


def choose_source(
    *, kubeconfig: str | None, context: str | None, environ: Mapping[str, str] = os.environ
) -> ConfigSource:
    """An explicit kubeconfig or `KUBECONFIG`, else the Pod's service account, else the default kubeconfig.

    A `context` means a kubeconfig. Raises `ConfigurationError` with one line.
    """
    files = kubeconfig or environ.get("KUBECONFIG")
    if not files and not context and environ.get(SERVICE_HOST_ENV_NAME):
        return ServiceAccount(environ=environ)
    return Kubeconfig(check(files or DEFAULT_KUBECONFIG, context))


class ServiceAccount:
    """The token and CA that the kubelet mounts into a Pod and rotates there."""

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
        """Read token and CA, off the event loop."""
        return await to_thread.run_sync(self._read)

    async def refresh(self) -> ClientConfig:
        """Read token and CA again: both are rotated in place."""
        return await self.load()

    def _read(self) -> ClientConfig:
        configuration = Configuration()
        # The client's own reload reads on the event loop and lets a half-written file fail a request.
        loader = InClusterConfigLoader(
            self._token_file, self._ca_file, try_refresh_token=False, environ=self._environ
        )
        try:
            loader.load_and_set(configuration)
            return _material(configuration)
        except _LOAD_ERRORS as error:
            files = f"token {self._token_file}, CA {self._ca_file}"
            raise ConfigurationError(f"in-cluster configuration ({files}): {_one_line(error)}") from error


class Kubeconfig:
    """One context of a kubeconfig: a token, token file, certificate, credential plugin or OIDC login."""

    def __init__(self, choice: SelectedContext, *, now: Callable[[], datetime] = utc_now) -> None:
        self._choice = choice
        self._now = now
        self._loader: Loader | None = None

    def __repr__(self) -> str:
        return f"<Kubeconfig {self._choice}>"

    async def load(self) -> ClientConfig:
        """Read the kubeconfig again and run its credential plugin, if there is one."""
        with self._one_line():
            loader = Loader(self._choice, self._now)
            material = await self._use(loader)
        self._loader = loader
        return material

    async def refresh(self) -> ClientConfig:
        """Read the files again that it names; run the plugin if its credential is about to end."""
        if self._loader is None:
            return await self.load()
        with self._one_line():
            return await self._use(self._loader)

    async def _use(self, loader: Loader) -> ClientConfig:
        configuration = Configuration()
        with anyio.fail_after(LOGIN_SECONDS):
            await loader.load_and_set(configuration)
        return _material(configuration)

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            problem = f"the login by credential plugin or OIDC took over {LOGIN_SECONDS:g} s"
            raise ConfigurationError(f"kubeconfig {self._choice}: {problem}") from error
        except _LOAD_ERRORS as error:
            raise ConfigurationError(f"kubeconfig {self._choice}: {_one_line(error)}") from error


def _material(configuration: Configuration) -> ClientConfig:
    # The client puts every scheme here, basic authentication too, and takes files as they are.
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
