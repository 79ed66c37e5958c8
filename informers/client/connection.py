"""The connection pool and the login of the moment, renewed while requests go on.

Credentials are read again at most once in `REFRESH_SECONDS`, by a task of its own that no request
waits for, and at once when the server refuses them, which the refused request does wait for. A new
token is used from the next request on. A new CA or client certificate gets a new pool for new
requests; the old one closes when its last request has ended, so no watch is cut. A renewal that
fails changes nothing but a log line.

TLS and proxies for both come from the official client's configuration. Requests go through a session
of our own on its connector: its session looks up proxies and netrc in a thread for every request,
which quadruples the CPU a request costs, and offers netrc passwords to the server.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import anyio
from aiohttp.client_middlewares import ClientHandlerType
from kubernetes_asyncio.client import ApiClient
from yarl import URL

from informers.client.credentials import ClientConfig, ConfigSource
from informers.client.responses import foreign_errors
from informers.client.sockets import lend_sockets
from informers.client.write_guard import GuardedBody, refusals_of
from informers.errors import ConfigurationError, Unreachable

logger = logging.getLogger(__name__)

# The kubelet renews a token when a fifth of its life is left; client-go re-reads it each minute.
REFRESH_SECONDS = 60.0

# What one read from a socket may bring; a watch under load gets many events in one turn.
_READ_BYTES = 256 * 1024


@dataclass(frozen=True)
class RequestObservation:
    """One HTTP request, for metrics: `code` is the HTTP code or `<error>`, `seconds` end at its headers."""

    method: str
    resource: str
    code: str
    seconds: float


Observer = Callable[[RequestObservation], None]


@dataclass(frozen=True)
class HttpRequest:
    """One request to be sent. `path` starts with `/api`, and it and `query` are percent-encoded already."""

    method: str
    resource: str
    path: str
    query: str = ""
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: aiohttp.ClientTimeout = field(default_factory=aiohttp.ClientTimeout, repr=False)

    def __str__(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"


class _ConnectionLost(aiohttp.ClientError):
    """A connection broke under a request that must not be sent twice."""


async def _send_once(request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
    # aiohttp resends a PUT or DELETE when its connection breaks; a write that took effect the first
    # time would then be answered with a conflict or 404, and pass for one that never happened.
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _ConnectionLost(str(error) or type(error).__name__) from error


class HttpPool:
    """A pool of connections with one set of TLS material; `ConfigurationError` if that is unusable."""

    def __init__(self, material: ClientConfig, *, connections: int, user_agent: str) -> None:
        configuration = material.configuration
        configuration.connection_pool_maxsize = connections
        self.base = str(configuration.host).rstrip("/")
        self.server = urlsplit(self.base).netloc.rpartition("@")[2]
        self._proxy = configuration.proxy or environment_proxy(self.base)
        self._server_hostname = configuration.tls_server_name
        try:
            self._client = ApiClient(configuration)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ConfigurationError(f"server {self.server}: {_tls_problem(error, material)}") from error
        connector = self._client.rest_client.pool_manager.connector
        lend_sockets(connector)
        self._session = aiohttp.ClientSession(
            connector=connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": "application/json", "User-Agent": user_agent},
            read_bufsize=_READ_BYTES,
        )
        self._requests = 0
        self._retired = False  # closes when the last request ends

    def __repr__(self) -> str:
        return f"<Connection {self.server} requests={self._requests} retired={self._retired}>"

    @property
    def requests(self) -> int:
        """Requests that are under way, watches included."""
        return self._requests

    @property
    def closed(self) -> bool:
        """Whether the pool is closed."""
        return self._session.closed

    @asynccontextmanager
    async def send(
        self, call: HttpRequest, authorization: str, observe: Observer
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send `call`, hand over the response at its headers, and close it in the end.

        Raises `Unreachable` and `OutcomeUnknown`. A GET on a connection that breaks is sent once more.
        """
        self._requests += 1
        try:
            response = await self._start(call, authorization, observe)
            try:
                yield response
            finally:
                response.close()  # gives the connection back if the body was read, else ends it
        finally:
            self._requests -= 1
            if self._retired and not self._requests:
                with anyio.CancelScope(shield=True):
                    await self.aclose()

    async def _start(
        self, call: HttpRequest, authorization: str, observe: Observer
    ) -> aiohttp.ClientResponse:
        headers = dict(call.headers)
        if authorization:
            headers["Authorization"] = authorization
        body = None if call.body is None else GuardedBody(call.body)
        started = anyio.current_time()
        code = "<error>"
        try:
            with foreign_errors(str(call)), refusals_of(body):
                response = await self._session.request(
                    call.method,
                    URL(f"{self.base}{call.path}?{call.query}", encoded=True),
                    data=body,
                    headers=headers,
                    timeout=call.timeout,
                    allow_redirects=False,
                    proxy=self._proxy,
                    server_hostname=self._server_hostname,
                    middlewares=() if call.method == "GET" else (_send_once,),
                )
            code = str(response.status)
            _keep_alive(response)
            return response
        finally:
            seconds = anyio.current_time() - started
            observe(RequestObservation(call.method, call.resource, code, seconds))

    async def retire(self) -> None:
        """Close as soon as the requests that are under way have ended."""
        self._retired = True
        if not self._requests:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the pool, whoever uses it. May be called twice."""
        await self._session.close()
        await self._client.close()


@dataclass(frozen=True)
class Session:
    """What to send the next request with. `loads` counts the readings from scratch after refusals."""

    connection: HttpPool
    material: ClientConfig = field(repr=False)
    loads: int = 0

    def supersedes(self, refused: Session) -> bool:
        """Whether it is worth a try after `refused`: other credentials, or the same ones read again since."""
        ours, theirs = self.material, refused.material
        return self.loads > refused.loads or (ours.authorization, ours.tls_digest) != (
            theirs.authorization,
            theirs.tls_digest,
        )


@dataclass(frozen=True)
class SessionStatistics:
    """`renewals` and `failed_renewals` since the start; `requests` are under way now, in `pools` pools."""

    renewals: int
    failed_renewals: int
    requests: int
    pools: int


class SessionManager:
    """The access of the moment, and its renewal. Made by `open_connections`."""

    def __init__(
        self,
        source: ConfigSource,
        access: Session,
        make: Callable[[ClientConfig], HttpPool],
        *,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self._source = source
        self._current = access
        self._make = make
        self._refresh_seconds = refresh_seconds
        self._refresh_at = anyio.current_time() + refresh_seconds
        self._renewal: asyncio.Task[None] | None = None
        self._renewal_scope = anyio.CancelScope()
        self._pools = [access.connection]
        self._closed = False
        self._renewals = 0
        self._failed_renewals = 0

    def __repr__(self) -> str:
        return f"<Connections {self._source!r} pools={len(self._pools)} renewals={self._renewals}>"

    @property
    def server(self) -> str:
        """Host and port of the server."""
        return self._current.connection.server

    def statistics(self) -> SessionStatistics:
        """Numbers of the moment."""
        return SessionStatistics(
            renewals=self._renewals,
            failed_renewals=self._failed_renewals,
            requests=sum(pool.requests for pool in self._pools),
            pools=sum(not pool.closed for pool in self._pools),
        )

    def current(self) -> Session:
        """The access to use now. Starts a refresh if one is due, without waiting for it."""
        if self._closed:
            raise Unreachable(f"{self.server}: the connection was closed on our side")
        if anyio.current_time() >= self._refresh_at:
            self._renew(self._source.refresh, loads=0)
        return self._current

    async def renew(self, refused: Session) -> Session:
        """The access to use after the server refused `refused`: a newer one, if reading it worked."""
        if self._renewal is not None:
            await asyncio.wait([self._renewal])
        if not self._closed and not self._current.supersedes(refused):
            await asyncio.wait([self._renew(self._source.load, loads=1)])
        return self.current()

    async def aclose(self) -> None:
        """Close every pool and end a renewal that is under way. May be called twice."""
        self._closed = True
        if self._renewal is not None:
            # Through the scope, since a task's own cancel() is delivered only once, and a credential
            # plugin takes two: one to stop listening to it, one to stop waiting for its end.
            self._renewal_scope.cancel()
            await asyncio.wait([self._renewal])
        for pool in self._pools:
            await pool.aclose()

    def _renew(self, read: Callable[[], Awaitable[ClientConfig]], *, loads: int) -> asyncio.Task[None]:
        # A task of its own, not the request's: a request that is cancelled must not end the renewal
        # that others wait for, and the next request must not wait for a slow plugin.
        if self._renewal is None:
            self._renewal_scope = anyio.CancelScope()
            self._renewal = asyncio.get_running_loop().create_task(self._replace(read, loads))
        return self._renewal

    async def _replace(self, read: Callable[[], Awaitable[ClientConfig]], loads: int) -> None:
        try:
            with self._renewal_scope:
                await self._adopt(await read(), loads)
        except ConfigurationError as error:
            self._failed_renewals += 1
            logger.warning("kept the credentials in use, reading them again failed: %s", error)
        finally:
            self._refresh_at = anyio.current_time() + self._refresh_seconds
            self._renewal = None

    async def _adopt(self, material: ClientConfig, loads: int) -> None:
        old = self._current
        connection = old.connection
        if material.tls_digest != old.material.tls_digest:
            connection = self._make(material)
            self._pools = [*(pool for pool in self._pools if not pool.closed), connection]
            logger.info("new connections to %s use the renewed TLS certificates", self.server)
        self._current = Session(connection, material, old.loads + loads)
        self._renewals += 1
        if connection is not old.connection:
            await old.connection.retire()


async def open_connections(
    source: ConfigSource, *, connections: int, user_agent: str, refresh_seconds: float = REFRESH_SECONDS
) -> SessionManager:
    """Read the source and make the pool; nothing is sent yet. Raises `ConfigurationError`."""

    def make(material: ClientConfig) -> HttpPool:
        return HttpPool(material, connections=connections, user_agent=user_agent)

    material = await source.load()
    return SessionManager(source, Session(make(material), material), make, refresh_seconds=refresh_seconds)


def environment_proxy(url: str) -> str | None:
    """The proxy that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` name for `url`.

    `NO_PROXY` may hold networks in CIDR notation, as it commonly does for in-cluster addresses; the
    standard library knows names and suffixes only.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme)
    if proxy is None or parts.hostname is None:
        return None
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    excluded = _networks(proxies.get("no", ""))
    try:
        address = ipaddress.ip_address(parts.hostname)
    except ValueError:
        return proxy
    return None if any(address in network for network in excluded) else proxy


def _networks(no_proxy: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    networks = []
    for entry in no_proxy.split(","):
        try:
            networks.append(ipaddress.ip_network(entry.strip(), strict=False))
        except ValueError:
            continue  # a host name
    return networks


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    # Frees the socket of a peer that vanished, also where no time limit of ours is running.
    connection = response.connection
    if connection is not None and connection.transport is not None:
        sock = connection.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _tls_problem(error: Exception, material: ClientConfig) -> str:
    configuration = material.configuration
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    named = ", ".join(file for file in files if file)
    what = "is no PEM certificate or key" if isinstance(error, ssl.SSLError) else str(error)
    return f"TLS file among {named}: {what}"
