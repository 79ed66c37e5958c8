"""Stalls of the event loop: the interval between two wakeups of a timer, in wall time and in the thread's CPU
time.

Wall time is the delay for other tasks. It includes the time of other processes on a busy machine, which CPU
time excludes. Garbage collections are timed separately, because they are a frequent cause.
"""

from __future__ import annotations

import gc
import time
from typing import Any, NoReturn

import anyio

TICK_SECONDS = 0.001


class Stalls:
    """The longest stalls since `reset`."""

    def __init__(self) -> None:
        self.wall_seconds = 0.0
        self.cpu_seconds = 0.0
        self.collection_seconds = 0.0
        self._collecting_since = 0.0
        self._restart = True

    def __repr__(self) -> str:
        return f"<Stalls wall={self.wall_seconds * 1000:.1f} ms cpu={self.cpu_seconds * 1000:.1f} ms>"

    def reset(self) -> None:
        """Reset all durations."""
        self.wall_seconds = self.cpu_seconds = self.collection_seconds = 0.0
        self._restart = True

    async def run(self) -> NoReturn:
        """Measure the loop until cancelled."""
        gc.callbacks.append(self._collected)
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            while True:
                await anyio.sleep(TICK_SECONDS)
                wall_now, cpu_now = time.perf_counter(), time.thread_time()
                if self._restart:
                    self._restart = False
                else:
                    self.wall_seconds = max(self.wall_seconds, wall_now - wall - TICK_SECONDS)
                    self.cpu_seconds = max(self.cpu_seconds, cpu_now - cpu)
                wall, cpu = wall_now, cpu_now
        finally:
            gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            self._collecting_since = time.perf_counter()
        else:
            seconds = time.perf_counter() - self._collecting_since
            self.collection_seconds = max(self.collection_seconds, seconds)
