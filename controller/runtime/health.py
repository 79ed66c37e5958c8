"""The kubelet's probes: `/healthz` (liveness) and `/readyz` (readiness).

Both follow the API server's convention: `ok` with 200, or one line per check with 500. `/healthz/<check>`
runs one check, `?verbose` lists all and `?exclude=<check>` ignores one. The list withholds reasons, because
the endpoint has no authentication. The path of a single check states its reason. The log records
changes, with reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import anyio
from aiohttp import web

from controller.runtime import logs
from informers.histogram import Histogram, HistogramStatistics

Check = Callable[[], str | None]
"""Returns `None`, or the reason of a failure. It runs on the event loop and must not block."""

LIVENESS_PATH = "/healthz"
READINESS_PATH = "/readyz"

LAG_BUCKETS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}

_log = logs.get_logger(__name__)


class Probe:
    """An endpoint with named checks. The check `ping` always passes."""

    def __init__(self, path: str, checks: Mapping[str, Check]) -> None:
        self._name = path.removeprefix("/")
        self._path = path
        self._checks: dict[str, Check] = {"ping": lambda: None, **checks}
        self._failures: dict[str, str] = {}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes: the endpoint and one path per check."""
        return [web.get(self._path, self._all), web.get(f"{self._path}/{{check}}", self._one)]

    def evaluate(self) -> Mapping[str, str]:
        """Run all checks and return the reasons of the failed ones, by name. A change is logged."""
        failures = {name: reason for name, check in self._checks.items() if (reason := check()) is not None}
        if failures.keys() != self._failures.keys():
            if failures:
                _log.warning("Probe failed", probe=self._path, checks=failures)
            else:
                _log.info("Probe recovered", probe=self._path)
        self._failures = failures
        return failures

    async def _all(self, request: web.Request) -> web.Response:
        excluded = request.query.getall("exclude", [])
        failures = {name for name in self.evaluate() if name not in excluded}
        if not failures and "verbose" not in request.query:
            return _response("ok")
        lines = [self._line(name, name in failures, name in excluded) for name in self._checks]
        lines += [f'warn: no check is named "{name}"' for name in excluded if name not in self._checks]
        lines.append(f"{self._name} check {'failed' if failures else 'passed'}\n")
        return _response("\n".join(lines), failed=bool(failures))

    async def _one(self, request: web.Request) -> web.Response:
        check = self._checks.get(request.match_info["check"])
        if check is None:
            raise web.HTTPNotFound
        reason = check()
        return _response("ok") if reason is None else _response(f"failed: {reason}\n", failed=True)

    @staticmethod
    def _line(name: str, failed: bool, excluded: bool) -> str:
        if excluded:
            return f"[+]{name} excluded: ok"
        return f"[-]{name} failed: reason withheld" if failed else f"[+]{name} ok"


def health_application(*, liveness: Mapping[str, Check], readiness: Mapping[str, Check]) -> web.Application:
    """Build the application of the probes. Checks are listed in the given order."""
    app = web.Application()
    app.add_routes(Probe(LIVENESS_PATH, liveness).routes())
    app.add_routes(Probe(READINESS_PATH, readiness).routes())
    return app


def _response(text: str, *, failed: bool = False) -> web.Response:
    return web.Response(text=text, status=500 if failed else 200, headers=_HEADERS)


class LoopMonitor:
    """A monitor of the event loop. It measures the lag of a regular beat."""

    def __init__(self, *, interval_seconds: float = 1.0, tolerance_seconds: float = 10.0) -> None:
        self._interval_seconds = interval_seconds
        self._tolerance_seconds = tolerance_seconds
        self._due = -math.inf
        self._lag = Histogram(LAG_BUCKETS_SECONDS)

    def lag_seconds(self) -> HistogramStatistics:
        """Return the lags of all beats since the start."""
        return self._lag.statistics()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Sleep for one interval and record the lag."""
        self._due = anyio.current_time() + self._interval_seconds
        await anyio.sleep(self._interval_seconds)
        self._lag.observe(max(0.0, anyio.current_time() - self._due))

    def check(self) -> str | None:
        """Check liveness: fail while the loop is blocked, and before `run`."""
        overdue_seconds = anyio.current_time() - self._due
        if overdue_seconds <= self._tolerance_seconds:
            return None
        return f"the event loop is {overdue_seconds:.1f} s late"
