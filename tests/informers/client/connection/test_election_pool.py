"""The election has its own connections: no other traffic of the process can starve it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random

import anyio
import pytest
from aiohttp import web

from informers.client.transport import Timeouts
from informers.errors import Unreachable
from informers.leader.election import ElectionSettings, LeaderElector
from tests.informers.client.conftest import Connect
from tests.informers.client.objects import NODES, THINGS, added
from tests.informers.client.server import ScriptedServer, forever

pytestmark = pytest.mark.anyio

POOL = 4
BRIEF = Timeouts(connect_seconds=0.2, request_seconds=5.0)
SETTINGS = ElectionSettings(lease_seconds=3, renew_deadline_seconds=2, retry_period_seconds=0.05)


class Leases:
    """Serves endless watches and one lease."""

    def __init__(self) -> None:
        self.spec: dict[str, object] | None = None
        self.version = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "leases" not in request.path:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(added("a"))
            await forever()
        if request.method != "GET":
            body = json.loads(await request.read())
            self.spec = {**(self.spec or {}), **body["spec"]}
            self.version += 1
        if self.spec is None:
            return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)
        metadata = {"name": "l", "namespace": "ns", "uid": "u", "resourceVersion": str(self.version)}
        return web.json_response({"kind": "Lease", "metadata": metadata, "spec": self.spec})


async def test_e19_a_pool_full_of_watches_does_not_starve_the_renewals(
    connect_to: Connect, server: ScriptedServer
) -> None:
    leases = Leases()
    server.answers(leases.answer)
    async with (
        connect_to(server.url, connections=POOL, timeouts=BRIEF) as busy,
        connect_to(server.url, connections=2, timeouts=BRIEF) as own,
        anyio.create_task_group() as tasks,
    ):
        watching = 0

        async def watch() -> None:
            nonlocal watching
            async with busy.watch(
                THINGS, resource_version="1", timeout_seconds=300, idle_seconds=60
            ) as events:
                await anext(events)
                watching += 1
                await forever()

        for _ in range(POOL):
            tasks.start_soon(watch)
        with anyio.fail_after(20):
            while watching < POOL:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            with pytest.raises(Unreachable):
                await busy.get(NODES, "n")

            elector = LeaderElector(
                own,
                name="l",
                namespace="ns",
                host="h",
                unique_suffix=lambda: "1",
                wall_clock=lambda: datetime.now(UTC),
                rng=Random(0),
                settings=SETTINGS,
            )

            async def lead() -> None:
                while leases.version < 10:  # noqa: ASYNC110
                    await anyio.sleep(0.01)

            await elector.run(lead)
        assert elector.statistics().failed_attempts_total == 0
        tasks.cancel_scope.cancel()
