"""The web application: every path of the server, and the one place where refusals become answers."""

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
from simulation.embedded.objects import Objects, json_response
from simulation.embedded.parameters import read_options
from simulation.embedded.refusals import forbidden_host, internal
from simulation.embedded.served import resolve
from simulation.embedded.watching import Watching

VERSION = "v1.36.3+embedded"
"""The release whose behaviour `e2e.parity` has recorded."""

BODY_BYTES_MAX = 3 * 1024 * 1024
"""As on real servers."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEALTH = ("/healthz", "/livez", "/readyz")

_log = logging.getLogger(__name__)


class Frontend:
    """Answers HTTP requests from one server in memory."""

    def __init__(
        self, server: ApiServer, watches: Watches, *, now: Callable[[], datetime], rng: Random
    ) -> None:
        self._objects = Objects(server, now)
        self.watching = Watching(server.store, watches, self._objects, rng)

    def __repr__(self) -> str:
        return f"<Frontend {self._objects!r} {self.watching!r}>"

    def application(self) -> web.Application:
        """The application, to be served on a loopback address."""
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[_refusing])
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
            about = _about(path, request.host)
            return _nothing_there() if about is None else json_response(about)
        # A path that names an object is read, whatever it asks for: so do real servers.
        watch = target.watch or (not target.name and read_options(request.query).watch)
        if request.method == "GET" and watch:
            return await self.watching.answer(request, target)
        return await self._objects.answer(request, target)


def _about(path: str, host: str) -> Document | None:
    """What the server says about itself; `None` where nothing is served."""
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


def _nothing_there() -> web.Response:
    """No `Status`: that is how real servers answer under a path that nobody has registered."""
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
async def _refusing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn refusals into `Status` objects, and let no fault of one request end another."""
    try:
        _check_host(request.host)
        return await handler(request)
    except Refusal as refusal:
        return json_response(refusal.data, refusal.code)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001 - the edge of one request: it is answered and told
        _log.error("%s %s failed", request.method, request.path_qs, exc_info=error)
        return json_response(internal(error).data, internal(error).code)


def _check_host(host: str) -> None:
    """A page in a browser may have its own name resolve to this machine; it cannot change this header."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError as error:
        raise forbidden_host(host) from error
    if name not in LOOPBACK:
        raise forbidden_host(host)
