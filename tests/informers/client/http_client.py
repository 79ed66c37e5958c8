"""Repeated requests for one object, and the tokens that they carried."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from informers.client.transport import KubeApi, Timeouts
from tests.informers.client.objects import THINGS, thing
from tests.informers.client.server import Answer, ScriptedServer, failure, reply

ALWAYS_REFRESH = Timeouts(refresh_seconds=0.0)


def only(token: str) -> Answer:
    """An answer that accepts one token."""
    good, bad = reply(thing()), failure(401, "Unauthorized", "who are you?")
    return lambda request: (good if request.headers.get("Authorization") == f"Bearer {token}" else bad)(
        request
    )


def tokens(server: ScriptedServer) -> list[str]:
    return [request.headers["Authorization"].removeprefix("Bearer ") for request in server.received]


async def until(condition: Callable[[], bool], api: KubeApi) -> None:
    """Send requests until `condition` holds: requests start a refresh but do not wait for it."""
    with anyio.fail_after(10):
        while not condition():
            await api.get(THINGS, "a", "ns")
