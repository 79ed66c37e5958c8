"""Virtual time for asyncio tests: the clock jumps to the next timer as soon as nothing can run.

An hour of virtual time costs as much as the callbacks in it, and a test that would hang for ever ends
at once in `Deadlock` with a dump of all tasks. asyncio's and anyio's clocks, sleeps and time-outs follow
the loop's `time()`. Two ways to use it: `run_virtual(async_fn)`, or for a whole test module::

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend() -> VirtualBackend:
        return VIRTUAL_BACKEND

The clock starts at 0 and is an integer number of nanoseconds, so `0.1 + 0.2` is `0.3` here. Sockets,
signals, subprocesses and threads are refused: they would end at a real moment. This is a clock, not a
simulation: callbacks run in asyncio's own order. It is the only place that relies on private parts of the
event loop (`_run_once`'s use of `_selector` and `_scheduled`); `test_virtualtime` pins them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

import anyio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
VirtualBackend = tuple[str, dict[str, Any]]

# Many times what the largest test takes without any time passing.
TURNS_MAX = 1_000_000


class Deadlock(RuntimeError):
    """Nothing can run and no timer is set: the awaited result would never come."""


class Livelock(RuntimeError):
    """Tasks keep each other busy without any time passing: on a real clock they would burn a processor."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that never waits. Its selector is itself: there is no I/O to select."""

    def __init__(self) -> None:
        super().__init__()
        self._now_nanoseconds = 0
        self._turns = 0
        self._selector = self
        self._clock_resolution: float = 1e-9

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now_nanoseconds / 1e9

    def block(self, seconds: float) -> None:
        """Let time pass as a blocking call does: nothing runs meanwhile, whatever was due is late."""
        self._now_nanoseconds += round(seconds * 1e9)

    def select(self, timeout: float | None) -> list[NoReturn]:
        """Called when the loop would wait: `timeout` is 0 with callbacks ready, `None` without any timer."""
        if timeout is None:
            raise Deadlock("\n".join(["no callback is ready and no timer is set; tasks:", *_dump(self)]))
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > TURNS_MAX:
            self._turns = 0  # whoever reports this has tasks to cancel yet
            raise Livelock("\n".join([f"{TURNS_MAX} turns in one instant; tasks:", *_dump(self)]))
        if timeout > 0:
            due = round(self._scheduled[0].when() * 1e9)  # type: ignore[attr-defined]
            # At least one step on: a time-out that was rounded down must not be re-armed for ever.
            self._now_nanoseconds = max(due, self._now_nanoseconds + 1)
            # After years of virtual time a float no longer holds a nanosecond; due timers must still be seen.
            self._clock_resolution = max(1e-9, 2 * math.ulp(self.time()))
        return []

    def run_in_executor(self, *_args: object) -> NoReturn:
        """Refuse: a thread ends at a real moment, which virtual time has none of."""
        raise RuntimeError("no threads in virtual time")

    def _process_events(self, _event_list: object) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """`call_soon_threadsafe` needs no wake-up: the loop never sleeps."""


VIRTUAL_BACKEND: VirtualBackend = ("asyncio", {"loop_factory": VirtualLoop})


def run_virtual(async_fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
    """Run `async_fn(*args)` on a new virtual loop and return its result."""
    return anyio.run(async_fn, *args, backend=VIRTUAL_BACKEND[0], backend_options=VIRTUAL_BACKEND[1])


def block(seconds: float) -> None:
    """Block the running virtual loop, as a call of `time.sleep` would."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.block(seconds)


def _dump(loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name):
        frames: list[str] = []
        awaited: object = task.get_coro()
        while frame := getattr(awaited, "cr_frame", None):
            frames.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
            awaited = getattr(awaited, "cr_await", None)
        yield f"  {task.get_name()}: {' > '.join(frames)}"
