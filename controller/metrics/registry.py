"""The metrics endpoint of one process, and what it gathers from.

Nothing is counted here: what owns a state keeps its `statistics()`, and a scrape turns the snapshots into
metrics. So every series exists from the start, at zero, none has a `_created` twin, and each process of a
simulation has its own registry.
"""

from __future__ import annotations

from collections.abc import Iterable

import prometheus_client
from aiohttp import web
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from controller.metrics.families import Families

METRICS_PATH = "/metrics"

FOREIGN_PREFIXES = ("process_", "python_gc_")
"""Metrics of the process and its garbage collector, as Prometheus's client for Python names them."""


class Metrics:
    """The registry of one process: about the process from the start, sources are added."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._sources = 0
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)

    def __repr__(self) -> str:
        return f"<Metrics sources={self._sources}>"

    def add(self, families: Families) -> None:
        """Add a source. `families` is called on every scrape, on the event loop."""
        self.registry.register(_Source(families))
        self._sources += 1

    def application(self) -> web.Application:
        """The application to serve on the metrics address."""
        app = web.Application()
        app.add_routes([web.get(METRICS_PATH, self._scrape)])
        return app

    async def _scrape(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        response = web.Response(body=encode(self.registry), headers={"Content-Type": content_type})
        response.enable_compression()
        return response


class _Source(Collector):
    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()
