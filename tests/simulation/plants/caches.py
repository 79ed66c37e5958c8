"""Bugs planted in `informers`: in the caches and in leader election."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from informers.api import Resource
from informers.cache.reflector import Reflector
from informers.cache.reflector_state import Watching
from informers.client.write_guard import GuardedApi
from informers.errors import ApiError, Gone
from tests.simulation.plants.plant import replaced


def expired_watch_continues() -> AbstractContextManager[None]:
    """After a 410, a watch is retried from the same version."""
    original = Reflector._after_failed_watch

    def watch_failed(reflector: Reflector[Any], error: ApiError, fruitless: int) -> object:
        if isinstance(error, Gone):
            return reflector._back_off("watch", error, then=Watching())
        return original(reflector, error, fruitless)

    return replaced(Reflector, "_after_failed_watch", watch_failed)


def writes_after_the_lease() -> AbstractContextManager[None]:
    """Writes are sent without a check of the lease."""

    def unchecked(_api: GuardedApi, _resource: Resource[Any]) -> AbstractContextManager[None]:
        return nullcontext()

    return replaced(GuardedApi, "_guarded", unchecked)
