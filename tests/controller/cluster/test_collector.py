"""Cached objects are frozen for the garbage collector once every cache has its first list."""

from __future__ import annotations

import gc
from random import Random

import anyio
import pytest

from controller.cluster.caches import freeze_when_synced, make_caches
from tests.controller.build import NAMESPACE, api


@pytest.mark.anyio
async def test_cached_objects_are_frozen_when_the_last_cache_has_synced() -> None:
    caches = make_caches(api(), NAMESPACE, Random(0))
    *most, last = caches.all()
    before = gc.get_freeze_count()
    try:
        async with anyio.create_task_group() as tasks:
            for informer in most:
                tasks.start_soon(informer.run)
                await informer.wait_for_sync()
            async with anyio.create_task_group() as freezing:
                freezing.start_soon(freeze_when_synced, caches)
                await anyio.wait_all_tasks_blocked()
                assert gc.get_freeze_count() == before
                tasks.start_soon(last.run)
            assert gc.get_freeze_count() > before
            tasks.cancel_scope.cancel()
    finally:
        gc.unfreeze()
