"""The connection pool and the current credentials, renewed while requests are in flight.

Credentials are read again at most once per `refresh_seconds`, by a separate task that no request waits for.
If the server rejects them they are read again at once, and the rejected request waits. A new token applies
from the next request on. A new CA, client certificate, server or impersonated user leads to a new pool. The
old pool closes when its last request has ended, so no watch is interrupted. A failed renewal changes nothing
and logs a warning.

TLS and proxies come from the official client's configuration. Requests use a separate session on its
connector. The client's own session looks up proxies and netrc in a thread for every request. That would
quadruple the CPU cost of a request, and send netrc passwords to the server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

import aiohttp
import anyio
from aiohttp.client_middlewares import ClientHandlerType
from kubernetes_asyncio.client import ApiClient
from yarl import URL

from informers.client.credentials import ClientConfig, ConfigSource
from informers.client.proxies import environment_proxy
from informers.client.responses import mapped_errors
from informers.client.sockets import use_unowned_sockets
from informers.client.write_guard import GuardedBody, raise_denial
from informers.errors import ConfigurationError, Unreachable

logger = logging.getLogger(__name__)

# Maximum size of one socket read, so that a watch under load receives many events at once.
_READ_BYTES = 256 * 1024


Observer = Callable[[str, str, float], None]
"""Receives each request for metrics: method, HTTP code or `<error>`, seconds until the response headers."""


@dataclass(frozen=True)
class HttpRequest:
    """One request. `path` starts with `/api`; it and `query` are percent-encoded."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: aiohttp.ClientTimeout = field(default_factory=aiohttp.ClientTimeout, repr=False)

    def __str__(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"


async def _send_once(request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
    # aiohttp resends a PUT or DELETE when its connection breaks. If the first attempt took effect, the second
    # would get a conflict or 404, and the write would look as if it never happened.
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientError(str(error) or type(error).__name__) from error


class HttpPool:
    """A pool of connections with one set of TLS files. Raises `ConfigurationError` if those are unusable."""

    def __init__(self, config: ClientConfig, *, connections: int, user_agent: str) -> None:
        configuration = config.configuration
        configuration.connection_pool_maxsize = connections
        self.base = str(configuration.host).rstrip("/")
        self.server = urlsplit(self.base).netloc.rpartition("@")[2]
        self._proxy = configuration.proxy or environment_proxy(self.base, os.environ)
        self._server_hostname = configuration.tls_server_name
        try:
            self._client = ApiClient(configuration)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ConfigurationError(f"server {self.server}: {_tls_problem(error, config)}") from error
        connector = self._client.rest_client.pool_manager.connector
        use_unowned_sockets(connector)
        self._session = aiohttp.ClientSession(
            connector=connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=[("Accept", "application/json"), ("User-Agent", user_agent), *config.headers],
            read_bufsize=_READ_BYTES,
        )
        self.requests = 0
        """Requests in flight, watches included."""
        self._retired = False  # closes when the last request ends

    def __repr__(self) -> str:
        return f"<HttpPool {self.server} requests={self.requests} retired={self._retired}>"

    @property
    def closed(self) -> bool:
        """Whether the pool is closed."""
        return self._session.closed

    @asynccontextmanager
    async def send(
        self, request: HttpRequest, authorization: str, observe: Observer
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send `request`, yield the response once its headers arrived, and close it on exit.

        Raises `Unreachable` and `OutcomeUnknown`. A GET whose connection breaks is sent once more.
        """
        self.requests += 1
        try:
            response = await self._start(request, authorization, observe)
            try:
                yield response
            finally:
                response.close()  # returns the connection to the pool if the body was read, else ends it
        finally:
            self.requests -= 1
            if self._retired and not self.requests:
                with anyio.CancelScope(shield=True):
                    await self.aclose()

    async def _start(
        self, request: HttpRequest, authorization: str, observe: Observer
    ) -> aiohttp.ClientResponse:
        headers = dict(request.headers)
        if authorization:
            headers["Authorization"] = authorization
        body = None if request.body is None else GuardedBody(request.body)
        started = anyio.current_time()
        code = "<error>"
        try:
            is_unsent = body.is_unsent if body is not None else lambda: False
            with mapped_errors(str(request), is_unsent), raise_denial(body):
                response = await self._session.request(
                    request.method,
                    URL(f"{self.base}{request.path}?{request.query}", encoded=True),
                    data=body,
                    headers=headers,
                    timeout=request.timeout,
                    allow_redirects=False,
                    proxy=self._proxy,
                    server_hostname=self._server_hostname,
                    middlewares=() if request.method == "GET" else (_send_once,),
                )
            code = str(response.status)
            _keep_alive(response)
            return response
        finally:
            observe(request.method, code, anyio.current_time() - started)

    async def retire(self) -> None:
        """Close once the requests in flight have ended."""
        self._retired = True
        if not self.requests:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the pool, also with requests in flight. May be called twice."""
        await self._session.close()
        await self._client.close()


@dataclass(frozen=True)
class Session:
    """The pool and credentials for the next request. `reloads` counts full reloads after rejections."""

    pool: HttpPool
    config: ClientConfig = field(repr=False)
    reloads: int = 0

    def supersedes(self, rejected: Session) -> bool:
        """Whether a retry after `rejected` makes sense: the credentials differ, or were read again since."""
        return self.reloads > rejected.reloads or self.config != rejected.config


@dataclass(frozen=True)
class SessionStatistics:
    """Renewals since the start, the number of open pools, and the requests in flight in them."""

    renewals: int
    failed_renewals: int
    requests: int
    pools: int


class SessionManager:
    """Holds the current session and renews it. Created by `open_sessions`."""

    def __init__(
        self,
        source: ConfigSource,
        session: Session,
        make_pool: Callable[[ClientConfig], HttpPool],
        *,
        refresh_seconds: float,
    ) -> None:
        self._source = source
        self._current = session
        self._make_pool = make_pool
        self._refresh_seconds = refresh_seconds
        self._refresh_at = anyio.current_time() + refresh_seconds
        self._renewal: asyncio.Task[None] | None = None
        self._renewal_scope = anyio.CancelScope()
        self._pools = [session.pool]
        self._closed = False
        self._renewals = 0
        self._failed_renewals = 0

    def __repr__(self) -> str:
        return f"<SessionManager {self._source!r} pools={len(self._pools)} renewals={self._renewals}>"

    @property
    def server(self) -> str:
        """Host and port of the server."""
        return self._current.pool.server

    def statistics(self) -> SessionStatistics:
        """Return counters since the start and current gauges."""
        return SessionStatistics(
            renewals=self._renewals,
            failed_renewals=self._failed_renewals,
            requests=sum(pool.requests for pool in self._pools),
            pools=sum(not pool.closed for pool in self._pools),
        )

    def current(self) -> Session:
        """Return the session to use now. Starts a refresh if one is due, without waiting for it."""
        if self._closed:
            raise Unreachable(f"{self.server}: the connection was closed on our side")
        if anyio.current_time() >= self._refresh_at:
            self._renew(self._source.refresh, reloads=0)
        return self._current

    async def renew(self, rejected: Session) -> Session:
        """Return the session to use after the server rejected `rejected`: a newer one if the reload works."""
        if self._renewal is not None:
            await asyncio.wait([self._renewal])
        if not self._closed and not self._current.supersedes(rejected):
            await asyncio.wait([self._renew(self._source.load, reloads=1)])
        return self.current()

    async def aclose(self) -> None:
        """Close every pool and end a renewal in progress. May be called twice."""
        self._closed = True
        if self._renewal is not None:
            # Cancelled through the scope: a task's own cancel() is delivered only once. A credential plugin
            # needs two, to stop reading its output and to stop waiting for its exit.
            self._renewal_scope.cancel()
            await asyncio.wait([self._renewal])
        for pool in self._pools:
            await pool.aclose()

    def _renew(self, read: Callable[[], Awaitable[ClientConfig]], *, reloads: int) -> asyncio.Task[None]:
        # A separate task: a cancelled request must not end the renewal that others wait for, and the next
        # request must not wait for a slow plugin.
        if self._renewal is None:
            self._renewal_scope = anyio.CancelScope()
            self._renewal = asyncio.get_running_loop().create_task(self._replace(read, reloads))
        return self._renewal

    async def _replace(self, read: Callable[[], Awaitable[ClientConfig]], reloads: int) -> None:
        try:
            with self._renewal_scope:
                await self._use(await read(), reloads)
        except ConfigurationError as error:
            self._failed_renewals += 1
            context = {"server": self.server, "err": str(error)}
            logger.warning("Failed to renew credentials, kept the current ones", extra=context)
        finally:
            self._refresh_at = anyio.current_time() + self._refresh_seconds
            self._renewal = None

    async def _use(self, config: ClientConfig, reloads: int) -> None:
        old = self._current
        pool = old.pool
        if config.pool_digest != old.config.pool_digest:
            pool = self._make_pool(config)
            self._pools = [*(known for known in self._pools if not known.closed), pool]
            logger.info("Opened connections with renewed settings", extra={"server": self.server})
        self._current = Session(pool, config, old.reloads + reloads)
        self._renewals += 1
        if pool is not old.pool:
            await old.pool.retire()


async def open_sessions(
    source: ConfigSource, *, connections: int, user_agent: str, refresh_seconds: float
) -> SessionManager:
    """Read the source and create the pool; sends nothing yet. Raises `ConfigurationError`."""
    make_pool = partial(HttpPool, connections=connections, user_agent=user_agent)
    config = await source.load()
    return SessionManager(
        source, Session(make_pool(config), config), make_pool, refresh_seconds=refresh_seconds
    )


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    # Frees the socket of a vanished peer, even while none of our timeouts is running.
    connection = response.connection
    if connection is not None and connection.transport is not None:
        sock = connection.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _tls_problem(error: Exception, config: ClientConfig) -> str:
    configuration = config.configuration
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    names = ", ".join(file for file in files if file)
    problem = "not a PEM certificate or key" if isinstance(error, ssl.SSLError) else str(error)
    return f"one of the TLS files {names}: {problem}"
