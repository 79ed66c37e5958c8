"""Informers that run on virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import anyio

from informers.cache.informer import SharedInformer
from tests.informers.scripted_api import THINGS, ListReply, ScriptedApi, Thing, WatchReply, page


def informer_of(*watches: WatchReply, lists: tuple[ListReply, ...] = (page(1),)) -> SharedInformer[Thing]:
    api = ScriptedApi(lists=list(lists), watches=list(watches))
    return SharedInformer(
        api,
        THINGS,
        rng=Random(0),
        indexes={"colour": lambda found: found.colours},
    )


@asynccontextmanager
async def running(*informers: SharedInformer[Thing]) -> AsyncIterator[None]:
    """Run informers during the block. They are idle when it starts and when it ends."""
    async with anyio.create_task_group() as tasks:
        for informer in informers:
            tasks.start_soon(informer.run)
        await idle()
        yield
        await idle()
        tasks.cancel_scope.cancel()


async def idle() -> None:
    """Wait until nothing else can run: only then does virtual time advance."""
    await anyio.sleep(0.01)
