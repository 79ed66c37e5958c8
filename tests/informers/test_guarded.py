"""Writes are withheld once another process may hold the lease; reads continue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from informers.api import Api, Resource
from informers.client.write_guard import GuardedApi
from informers.errors import NotLeading
from informers.leader.lease import LEASES
from tests.informers.leader.lease_server import Process, lease_server
from tests.informers.scripted_api import THINGS, ScriptedApi, page
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend, block

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    return VIRTUAL_BACKEND


class WriteRecorder(ScriptedApi):
    """An API that records each write."""

    def __init__(self) -> None:
        super().__init__(lists=[page(1)])
        self.writes: list[str] = []

    async def _record(self, verb: str) -> Any:
        self.writes.append(verb)

    async def create(self, resource: Resource[Any], *_: object, **__: object) -> Any:
        return await self._record(f"create {resource}")

    async def patch(self, *_: object, **__: object) -> Any:
        return await self._record("patch")

    async def update(self, *_: object, **__: object) -> Any:
        return await self._record("update")

    async def delete(self, *_: object, **__: object) -> Any:
        return await self._record("delete")


async def write_all(api: Api) -> None:
    await api.create(THINGS, {})
    await api.patch(THINGS, "a", {})
    await api.update(THINGS, "a", {})
    await api.delete(THINGS, "a")


async def test_E13_without_leadership_only_unguarded_resources_are_written() -> None:
    inner = WriteRecorder()
    allowed = True
    guarded = GuardedApi(cast("Api", inner), lambda: allowed, unguarded=(LEASES,))
    await write_all(guarded)
    assert inner.writes == ["create things.example.com", "patch", "update", "delete"]
    inner.writes.clear()
    allowed = False
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: guarded.create(THINGS, {}),
        lambda: guarded.patch(THINGS, "a", {}),
        lambda: guarded.update(THINGS, "a", {}),
        lambda: guarded.delete(THINGS, "a"),
    ]
    for write in writes:
        with pytest.raises(NotLeading, match=r"things\.example\.com was withheld"):
            await write()
    await guarded.create(LEASES, {})
    assert inner.writes == ["create leases.coordination.k8s.io"]
    assert (await guarded.list_page(THINGS)).items == []
    assert guarded.statistics() == 4


async def test_E13_work_that_resumes_from_a_freeze_before_the_elector_writes_nothing() -> None:
    async with lease_server() as server:
        inner = WriteRecorder()
        process = Process(server)
        guarded = GuardedApi(cast("Api", inner), process.elector.may_write)

        async def work() -> None:
            await guarded.create(THINGS, {})
            block(60)
            # No other task ran in between, so the elector has not detected the loss yet.
            await guarded.create(THINGS, {})

        process.work = work
        process.start()
        await process.finished.wait()
    assert inner.writes == ["create things.example.com"]
    assert isinstance(process.result, NotLeading)
