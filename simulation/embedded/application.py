"""The web application: it routes every path, and is the only place that turns refusals into responses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from random import Random
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from simulation.apiserver.documents import Document
from simulation.apiserver.refusals import Refusal
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import Watches
from simulation.embedded import discovery, openapi
from simulation.embedded.http_refusals import forbidden_host, internal
from simulation.embedded.objects import ObjectHandler, json_response
from simulation.embedded.parameters import read_options
from simulation.embedded.served import resolve
from simulation.embedded.watching import WatchHandler

VERSION = "v1.36.3+embedded"
"""The Kubernetes release whose behavior `e2e.parity` has recorded."""

BODY_BYTES_MAX = 3 * 1024 * 1024
"""The same limit as on real servers."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEALTH = ("/healthz", "/livez", "/readyz")

_log = logging.getLogger(__name__)


class Frontend:
    """Handles HTTP requests for one in-memory server."""

    def __init__(
        self, server: ApiServer, watches: Watches, *, now: Callable[[], datetime], rng: Random
    ) -> None:
        self._objects = ObjectHandler(server, now)
        self.watching = WatchHandler(server.store, watches, self._objects, rng)

    def __repr__(self) -> str:
        return f"<Frontend {self._objects!r} {self.watching!r}>"

    def application(self) -> web.Application:
        """Return the application, to be served on a loopback address."""
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[_handle_errors])
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/") or "/"
        if path in HEALTH:
            return web.Response(text="ok")
        target = resolve(path)
        if target is None:
            named = path == "/apis"
            if path in {"/api", "/apis"} and discovery.AGGREGATED in request.headers.get("Accept", ""):
                return json_response(discovery.aggregated(named=named), content_type=discovery.AGGREGATED)
            about = _server_document(path, request.host)
            return _path_not_found() if about is None else json_response(about)
        # Like a real server, ignore a watch parameter on the path of a single object.
        watch = target.watch or (not target.name and read_options(request.query).watch)
        if request.method == "GET" and watch:
            return await self.watching.handle(request, target)
        return await self._objects.handle(request, target)


def _server_document(path: str, host: str) -> Document | None:
    """Return a document about the server itself, or `None` if the path is not served."""
    match [part for part in path.split("/") if part]:
        case ["api"]:
            return discovery.legacy_versions(host)
        case ["api", "v1"]:
            return discovery.resource_list("", "v1")
        case ["apis"]:
            return discovery.group_list()
        case ["apis", group]:
            return discovery.group(group)
        case ["apis", group, version]:
            return discovery.resource_list(group, version)
        case ["openapi", "v3"]:
            return openapi.index()
        case ["openapi", "v3", *_]:
            return openapi.document(path.removeprefix(openapi.INDEX))
        case ["version"]:
            return _version()
        case _:
            return None


def _path_not_found() -> web.Response:
    """Return a plain 404 without a `Status`, as real servers do for an unregistered path."""
    return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")


def _version() -> Document:
    major, minor, _ = VERSION.removeprefix("v").split(".", 2)
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


@web.middleware
async def _handle_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn refusals into `Status` objects, and an unexpected error into a response of that request alone."""
    try:
        _check_host(request.host)
        return await handler(request)
    except Refusal as refusal:
        return json_response(refusal.data, refusal.code)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001 - the boundary of one request: logged and returned as 500
        context = {"method": request.method, "path": request.path_qs}
        _log.error("Request failed", extra=context, exc_info=error)
        return json_response(internal(error).data, internal(error).code)


def _check_host(host: str) -> None:
    """Refuse other host names: a web page can resolve its own name to this machine (DNS rebinding)."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError as error:
        raise forbidden_host(host) from error
    if name not in LOOPBACK:
        raise forbidden_host(host)
