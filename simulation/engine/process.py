"""Simulated processes: which one a callback belongs to, and whether it runs, is frozen, or is dead.

A context variable names the current process; every task, timer and callback started by it inherits the
variable. The loop checks the process before it runs a callback (`simulation.engine.virtual_loop`). A frozen
process (SIGSTOP, a starved virtual machine) runs nothing until it is thawed; then all callbacks that became
due run in order. A dead process (SIGKILL) never runs again: no `finally`, no clean-up. The loop keeps the
callbacks of a dead process, so that the garbage collector does not finalize them at an arbitrary moment.
They may be released once a run is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum


class ProcessState(Enum):
    """What the loop does with the callbacks of a process."""

    RUNNING = "running"
    FROZEN = "frozen"
    DEAD = "dead"


class VirtualProcess:
    """One process. `rate` is the speed of its monotonic clock; 1 is exact."""

    def __init__(self, name: str, *, rate: float = 1.0) -> None:
        self.name = name
        self.rate = rate
        self.state = ProcessState.RUNNING
        self.held_callbacks: list[asyncio.Handle] = []
        """Callbacks that became due while the process was frozen or dead."""

    def __repr__(self) -> str:
        return f"<VirtualProcess {self.name} {self.state.value} held_callbacks={len(self.held_callbacks)}>"

    @property
    def is_alive(self) -> bool:
        """Whether the process was not killed."""
        return self.state is not ProcessState.DEAD


CURRENT_PROCESS: ContextVar[VirtualProcess | None] = ContextVar("CURRENT_PROCESS", default=None)
"""The running process. `None` for users, actors and the network, which belong to no process."""


@contextmanager
def in_process(process: VirtualProcess | None) -> Iterator[None]:
    """Start the tasks and timers of the block in `process`."""
    token = CURRENT_PROCESS.set(process)
    try:
        yield
    finally:
        CURRENT_PROCESS.reset(token)
