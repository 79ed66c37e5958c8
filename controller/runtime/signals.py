"""Shutdown signals: the first SIGTERM or SIGINT requests a stop, the second ends the process.

The handlers are Python's, not the event loop's, so that the second signal works while the loop is blocked.
This module does not decide how the controller stops.
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
    """Yield an event that the first SIGTERM or SIGINT sets. The second ends the process with status 1.

    For the main thread only. The previous handlers are restored afterwards.
    """
    stop = anyio.Event()
    loop = asyncio.get_running_loop()
    requested = False

    def request_stop(name: str) -> None:
        _log.info("Received stop signal", signal=name, hint="a second signal ends the process at once")
        stop.set()

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal requested
        if requested:
            os._exit(1)
        requested = True
        loop.call_soon_threadsafe(request_stop, signal.Signals(number).name)

    previous = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler or signal.SIG_DFL)
