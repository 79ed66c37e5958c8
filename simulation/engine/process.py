"""Which simulated process a callback belongs to, and whether that process runs, is frozen, or is dead.

A process is known by a context variable: every task, timer and callback that was begun inside it carries it.
The loop asks for it before it runs anything (`simulation.engine.virtual_loop`). A frozen process (SIGSTOP, a
starved virtual machine) runs nothing until it is thawed, and then everything that became due, in order. A
dead one (SIGKILL) never runs again: no `finally`, no clean-up. What it would have run is kept, so that
nothing is collected at an arbitrary moment; it may be let go once a run is over and nobody looks any more.
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
    """One process. `rate` is how fast its monotonic clock goes, 1 for exactly."""

    def __init__(self, name: str, *, rate: float = 1.0) -> None:
        self.name = name
        self.rate = rate
        self.state = ProcessState.RUNNING
        self.held: list[asyncio.Handle] = []
        """What it would have run while it was frozen or dead."""

    def __repr__(self) -> str:
        return f"<VirtualProcess {self.name} {self.state.value} held={len(self.held)}>"

    @property
    def alive(self) -> bool:
        """Whether it was not killed."""
        return self.state is not ProcessState.DEAD


OWNER: ContextVar[VirtualProcess | None] = ContextVar("OWNER", default=None)
"""The process that is running, `None` outside of any: users, actors, the network."""


@contextmanager
def inside(process: VirtualProcess | None) -> Iterator[None]:
    """What the block starts belongs to `process`."""
    token = OWNER.set(process)
    try:
        yield
    finally:
        OWNER.reset(token)
