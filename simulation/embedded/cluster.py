"""A cluster of one process, on a real clock, that answers on a loopback address.

    async with EmbeddedCluster() as cluster:
        cluster.fleet.add_nodes(3)
        cluster.write_kubeconfig(path)

Invariant: it listens on the loopback interface only, because it has no authentication. If a simulated
component fails on an object, the error is logged and the cluster keeps running.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import anyio
import yaml
from aiohttp import web

from simulation.actors.base import Delays
from simulation.apiserver import kinds
from simulation.apiserver.store import StoreStatistics
from simulation.cluster.control_plane import ControlPlane
from simulation.cluster.simulated_cluster import CONTROLLER_NAMESPACE, WORKER_NAMESPACE
from simulation.embedded.admission import WORKERS_LABEL
from simulation.embedded.application import Frontend
from simulation.engine.event_queue import EventQueueStatistics
from simulation.engine.random_streams import Streams

HOST = "127.0.0.1"
NAMESPACES = ("default", "kube-system", WORKER_NAMESPACE, CONTROLLER_NAMESPACE)

COMPACTION_SECONDS = 300.0
"""The minimum time for which a version can be watched. kube-apiserver compacts etcd at this interval."""

SHUTDOWN_SECONDS = 1.0

DELAYS = Delays()
"""Delays without random spread: Pods are scheduled in order of creation, as by a real scheduler."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmbeddedStatistics:
    """The number of objects, of pending work items, and of open watches."""

    store: StoreStatistics
    event_queue: EventQueueStatistics
    watches: int


class EmbeddedCluster(ControlPlane):
    """A cluster as an async context manager. Leaving it ends all watches and closes the socket.

    `seed` determines UIDs. `port` 0 chooses a free port. Raises `OSError` if the port is in use.
    """

    def __init__(self, *, seed: int = 0, port: int = 0, delays: Delays = DELAYS) -> None:
        new_uid = Streams(seed).identifiers("objects")
        super().__init__(seed=seed, now=utc_now, new_uid=new_uid, namespaces=NAMESPACES, delays=delays)
        label = {"metadata": {"labels": {WORKERS_LABEL: "true"}}}
        self.server.patch(kinds.NAMESPACES, WORKER_NAMESPACE, "", label)
        self._requested_port = port
        self._port = 0
        rng = self.streams.get("watches")
        self._frontend = Frontend(self.server, self.watches, now=utc_now, rng=rng)
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<EmbeddedCluster {self.url} {self.server!r}>"

    def statistics(self) -> EmbeddedStatistics:
        """Return current numbers."""
        return EmbeddedStatistics(
            self.server.store.statistics(), self.event_queue.statistics(), len(self.watches.matching())
        )

    @property
    def url(self) -> str:
        """The URL of the API server, once the context is entered."""
        return f"http://{HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._port = await stack.enter_async_context(
                _served(self._frontend.application(), self._requested_port)
            )
            stack.callback(self._frontend.watching.end)
            await stack.enter_async_context(_running(self._run_components, self._compact))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def kubeconfig(self) -> str:
        """Return a kubeconfig for this cluster, without credentials."""
        name = "embedded"
        context = {"cluster": name, "user": name, "namespace": WORKER_NAMESPACE}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": context}],
            "current-context": name,
        }
        return yaml.safe_dump(document, sort_keys=False)

    def write_kubeconfig(self, path: Path) -> None:
        """Write the kubeconfig to a file. Raises `OSError`."""
        path.write_text(self.kubeconfig(), encoding="utf-8")

    async def _run_components(self) -> NoReturn:
        while True:
            try:
                await self.event_queue.run()
            except Exception as error:  # noqa: BLE001 - one malformed object must not stop the others
                _log.error("Simulated component failed on an object", exc_info=error)

    async def _compact(self) -> NoReturn:
        store = self.server.store
        while True:
            revision = store.revision
            await anyio.sleep(COMPACTION_SECONDS)
            store.compact(revision)


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


@asynccontextmanager
async def _served(app: web.Application, port: int) -> AsyncIterator[int]:
    """Serve on the loopback interface while the block runs, and yield the port."""
    listener = socket.create_server((HOST, port))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS)
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
        yield int(listener.getsockname()[1])
    finally:
        await runner.cleanup()
        listener.close()


@asynccontextmanager
async def _running(*services: Callable[[], Coroutine[Any, Any, NoReturn]]) -> AsyncIterator[None]:
    """Run endless coroutine functions while the block runs. An error of the block propagates unchanged."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        for service in services:
            tasks.start_soon(service)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below, without an exception group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
