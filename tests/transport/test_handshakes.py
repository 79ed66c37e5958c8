"""Connections that break during the TLS handshake, as those through a load balancer without a server do."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path

import anyio
import pytest

from informers.errors import Unreachable
from informers.transport import connect
from tests.transport.conftest import kubeconfig
from tests.transport.server import reset, serve_raw
from tests.transport.things import THINGS

pytestmark = pytest.mark.anyio

CLIENTS, CALLS = 8, 40


async def test_w6_handshakes_that_break_are_unreachable_and_harm_no_other_connection(tmp_path: Path) -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reset(writer)

    async with serve_raw(refuse) as url:
        cluster = {"insecure-skip-tls-verify": True}
        file = kubeconfig(tmp_path / "config", url.replace("http:", "https:"), cluster=cluster)
        async with connect(kubeconfig=str(file)) as api, anyio.create_task_group() as tasks:
            # What failed is looked at for a while, as a log or a debugger does: it holds its socket.
            looked_at: deque[BaseException] = deque(maxlen=CLIENTS // 2)

            async def call_again_and_again() -> None:
                for _ in range(CALLS):
                    with pytest.raises(Unreachable) as failure:
                        await api.get(THINGS, "a", "ns")
                    looked_at.append(failure.value)

            for _ in range(CLIENTS):
                tasks.start_soon(call_again_and_again)
