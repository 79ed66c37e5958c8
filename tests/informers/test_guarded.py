"""Writes are kept back once the lease may be someone else's; reads go on."""

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


class Written(ScriptedApi):
    """Notes each write."""

    def __init__(self) -> None:
        super().__init__(lists=[page(1)])
        self.writes: list[str] = []

    async def _note(self, verb: str) -> Any:
        self.writes.append(verb)

    async def create(self, resource: Resource[Any], *_: object, **__: object) -> Any:
        return await self._note(f"create {resource}")

    async def patch(self, *_: object, **__: object) -> Any:
        return await self._note("patch")

    async def update(self, *_: object, **__: object) -> Any:
        return await self._note("update")

    async def delete(self, *_: object, **__: object) -> Any:
        return await self._note("delete")


async def write_all(api: Api) -> None:
    await api.create(THINGS, {})
    await api.patch(THINGS, "a", {})
    await api.update(THINGS, "a", {})
    await api.delete(THINGS, "a")


async def test_E13_who_may_not_write_sends_nothing_but_what_is_free() -> None:
    behind = Written()
    allowed = True
    guarded = GuardedApi(cast("Api", behind), lambda: allowed, unguarded=(LEASES,))
    await write_all(guarded)
    assert behind.writes == ["create things.example.com", "patch", "update", "delete"]
    behind.writes.clear()
    allowed = False
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: guarded.create(THINGS, {}),
        lambda: guarded.patch(THINGS, "a", {}),
        lambda: guarded.update(THINGS, "a", {}),
        lambda: guarded.delete(THINGS, "a"),
    ]
    for write in writes:
        with pytest.raises(NotLeading, match=r"things\.example\.com was kept back"):
            await write()
    await guarded.create(LEASES, {})
    assert behind.writes == ["create leases.coordination.k8s.io"]
    assert (await guarded.list_page(THINGS)).items == []
    assert guarded.statistics() == 4


async def test_E13_work_that_wakes_from_a_freeze_before_the_elector_writes_nothing() -> None:
    async with lease_server() as server:
        behind = Written()
        process = Process(server)
        guarded = GuardedApi(cast("Api", behind), process.elector.may_write)

        async def work() -> None:
            await guarded.create(THINGS, {})
            block(60)
            # Nothing has had its turn in between: the elector does not know yet.
            await guarded.create(THINGS, {})

        process.work = work
        process.start()
        await process.finished.wait()
    assert behind.writes == ["create things.example.com"]
    assert isinstance(process.result, NotLeading)
