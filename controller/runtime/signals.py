"""Being asked to stop: the first SIGTERM or SIGINT is a request, the second an order.

The handlers are Python's own, not the event loop's: they run even while the loop is stuck, which is when a
second signal is sent. What a stop means, and in which order things end, is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType

import anyio

from controller.runtime import logs

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = logs.get_logger(__name__)


@asynccontextmanager
async def shutdown_signals() -> AsyncIterator[anyio.Event]:
    """Give an event that the first SIGTERM or SIGINT sets; the second ends the process at once with status 1.

    For the main thread only. On leaving, the former handlers are back in place.
    """
    stop = anyio.Event()
    loop = asyncio.get_running_loop()
    asked = False

    def request_stop(name: str) -> None:
        _log.info("Stopping", signal=name, hint="a second signal ends the process at once")
        stop.set()

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(1)
        asked = True
        loop.call_soon_threadsafe(request_stop, signal.Signals(number).name)

    former = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler or signal.SIG_DFL)
