"""Keeps the garbage collector from walking the caches over and over.

The collector stops the event loop, and a full collection of a process that holds a hundred thousand Pods
takes a tenth of a second. What the first lists brought lives as long as the process, so it is set aside once.
What is set aside is still freed when nothing refers to it any more; only cycles among it would stay, and the
caches hold none.
"""

from __future__ import annotations

import gc
import math

from controller import logs
from controller.caches import Caches

_log = logs.get_logger(__name__)


async def freeze_when_synced(caches: Caches) -> None:
    """Wait for every cache's first list, collect once, and have later collections leave out what is there.

    For a process that runs one controller until it ends: nothing takes this back.
    """
    for informer in caches.all():
        await informer.wait_for_sync(math.inf)
    gc.collect()
    gc.freeze()
    _log.debug("Set the caches aside for the garbage collector", objects=gc.get_freeze_count())
