"""A server with one lease, clients that fail on demand, and processes that compete for the lease."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from informers.api import Api, Resource
from informers.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    OutcomeUnknown,
    ServerError,
    Unauthorized,
    Undecodable,
    Unreachable,
)
from informers.leader.election import ElectionSettings, LeaderElector
from informers.leader.lease import LEASES, Lease

SETTINGS = ElectionSettings()  # 15, 10 and 2 s
FAULTS = [
    Unreachable("refused"),
    OutcomeUnknown("reset"),
    TimeoutError("slow"),
    Unauthorized("expired", status=401),
    ServerError("down"),
    Undecodable("bad JSON"),
    KeyError("a bug in the client"),
]


class LeaseServer:
    """One lease with the server's version and merge patch rules; records its states and requests.

    A separate task handles each request, as on a network: cancelling the caller does not undo it.
    """

    def __init__(self) -> None:
        self.tasks: anyio.abc.TaskGroup
        self.object: dict[str, Any] | None = None
        self.version = 0
        self.requests: list[tuple[float, str]] = []
        self.history: list[tuple[float, dict[str, Any]]] = []

    @property
    def spec(self) -> dict[str, Any]:
        assert self.object is not None
        return cast("dict[str, Any]", self.object["spec"])

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    def commit(self, obj: dict[str, Any]) -> bytes:
        if obj != self.object:
            self.version += 1
            obj["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((anyio.current_time(), obj["spec"]))
        self.object = obj
        return msgspec.json.encode(obj)

    def get(self) -> bytes:
        if self.object is None:
            raise NotFound("no lease", status=404)
        return msgspec.json.encode(self.object)

    def create(self, body: dict[str, Any]) -> bytes:
        if self.object is not None:
            raise AlreadyExists("lease exists", status=409)
        metadata = {**body["metadata"], "namespace": "ns", "uid": f"uid-{self.version}"}
        return self.commit({**body, "metadata": metadata})

    def patch(self, body: dict[str, Any]) -> bytes:
        if self.object is None:
            raise NotFound("no lease", status=404)
        if body["metadata"]["resourceVersion"] != self.object["metadata"]["resourceVersion"]:
            raise Conflict("the lease has changed", status=409)
        merged = {**self.spec, **body["spec"]}
        spec = {key: value for key, value in merged.items() if value is not None}
        return self.commit({**self.object, "metadata": dict(self.object["metadata"]), "spec": spec})

    def take(self, holder: str | None) -> None:
        """Write another holder, as an administrator would."""
        assert self.object is not None
        self.patch({"metadata": self.object["metadata"], "spec": {"holderIdentity": holder}})

    def touch(self) -> None:
        """Write a label: a new version of the same record."""
        assert self.object is not None
        labels = {"touched": str(self.version)}
        self.commit({**self.object, "metadata": {**self.object["metadata"], "labels": labels}})


class Client:
    """A client of the server; `before` and `after` run around the effect of each request."""

    def __init__(self, server: LeaseServer) -> None:
        self.server = server
        self.before: Callable[[str], Awaitable[object]] = nothing
        self.after: Callable[[str], Awaitable[object]] = nothing

    async def _send(self, verb: str, handle: Callable[[], bytes]) -> Lease:
        self.server.requests.append((anyio.current_time(), verb))
        answered = anyio.Event()
        response: list[bytes | Exception] = []

        async def serve() -> None:
            try:
                await self.before(verb)
                answer = handle()
                await self.after(verb)
                response.append(answer)
            except Exception as error:  # noqa: BLE001 - raised in the caller
                response.append(error)
            answered.set()

        self.server.tasks.start_soon(serve)
        await answered.wait()
        if isinstance(response[0], Exception):
            raise response[0]
        return LEASES.decode(response[0])

    async def get(self, _resource: Resource[Lease], name: str, namespace: str = "") -> Lease:
        assert (name, namespace) == ("controller", "ns")
        return await self._send("get", self.server.get)

    async def create(self, _resource: Resource[Lease], body: dict[str, Any], _namespace: str = "") -> Lease:
        return await self._send("create", lambda: self.server.create(body))

    async def patch(
        self, _resource: Resource[Lease], _name: str, body: dict[str, Any], _namespace: str = ""
    ) -> Lease:
        return await self._send("patch", lambda: self.server.patch(body))


async def nothing(_verb: str) -> None:
    await anyio.lowlevel.checkpoint()


async def done() -> None:
    await anyio.lowlevel.checkpoint()


async def hang(_verb: str) -> None:
    await anyio.sleep_forever()


def failing(error: Exception) -> Callable[[str], Awaitable[object]]:
    async def fail(_verb: str) -> None:
        await anyio.lowlevel.checkpoint()
        raise error

    return fail


@asynccontextmanager
async def lease_server() -> AsyncIterator[LeaseServer]:
    server = LeaseServer()
    async with anyio.create_task_group() as tasks:
        server.tasks = tasks
        yield server
        tasks.cancel_scope.cancel()


def make_elector(
    client: Client,
    host: str = "a",
    *,
    suffix: str = "1",
    settings: ElectionSettings = SETTINGS,
    wall_offset: timedelta = timedelta(0),
    seed: int = 1,
) -> LeaderElector:
    start = datetime(2026, 1, 1, tzinfo=UTC) + wall_offset
    return LeaderElector(
        cast("Api", client),
        name="controller",
        namespace="ns",
        host=host,
        unique_suffix=lambda: suffix,
        wall_clock=lambda: start + timedelta(seconds=anyio.current_time()),
        rng=random.Random(seed),
        settings=settings,
    )


class Process:
    """An elector with its client, and work that records when it starts and ends."""

    def __init__(
        self,
        server: LeaseServer,
        host: str = "a",
        *,
        wall_offset: timedelta = timedelta(0),
        seed: int = 1,
    ) -> None:
        self.client = Client(server)
        self.elector = make_elector(self.client, host, wall_offset=wall_offset, seed=seed)
        self.scope: anyio.CancelScope
        self.finished: anyio.Event
        self.started: list[float] = []
        self.ended: list[float] = []
        self.result: Exception | None = None
        self.cleanup_seconds = 0.0
        self.work: Callable[[], Awaitable[object]] = anyio.sleep_forever

    async def lead(self) -> None:
        self.started.append(anyio.current_time())
        try:
            await self.work()
        finally:
            if self.cleanup_seconds:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(self.cleanup_seconds)
            self.ended.append(anyio.current_time())

    async def run(self) -> None:
        with self.scope:
            try:
                await self.elector.run(self.lead)
            except Exception as error:  # noqa: BLE001 - asserted by tests
                self.result = error
        self.finished.set()

    def start(self) -> Process:
        """Start the process, or restart it after it has finished."""
        self.scope, self.finished = anyio.CancelScope(), anyio.Event()
        self.client.server.tasks.start_soon(self.run)
        return self


async def leader(server: LeaseServer, host: str = "a", *, within_seconds: float = 0.5) -> Process:
    """Return a process that has acquired the lease."""
    process = Process(server, host).start()
    await anyio.sleep(within_seconds)
    assert process.elector.leading
    return process
