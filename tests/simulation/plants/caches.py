"""Plants in the caches and in leader election: `informers`."""

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
    """A watch that was answered with 410 is tried again from the same version."""
    failed = Reflector._after_failed_watch

    def watch_failed(reflector: Reflector[Any], error: ApiError, fruitless: int) -> object:
        if isinstance(error, Gone):
            return reflector._back_off("watch", error, then=Watching())
        return failed(reflector, error, fruitless)

    return replaced(Reflector, "_after_failed_watch", watch_failed)


def writes_after_the_lease() -> AbstractContextManager[None]:
    """Nothing is asked before a write: it goes out although the lease may be lost."""

    def unchecked(_api: GuardedApi, _resource: Resource[Any]) -> AbstractContextManager[None]:
        return nullcontext()

    return replaced(GuardedApi, "_guarded", unchecked)
