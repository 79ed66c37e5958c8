"""Virtual time for asyncio: the clock jumps to the next timer as soon as nothing can run.

An hour of virtual time costs as much as the callbacks in it, and what would hang for ever ends at once in
`Deadlock` with a dump of all tasks. asyncio's and anyio's clocks, sleeps and time-outs follow the loop's
`time()`. Two ways to use it: `run_virtual(async_fn)`, or for a whole test module::

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend() -> VirtualBackend:
        return VIRTUAL_BACKEND

The clock starts at 0 and is an integer number of nanoseconds, so `0.1 + 0.2` is `0.3` here; timers of one
instant fire in the order in which they were set. Tasks hash by the order in which they were made, so that
sets of them have one order in every run. Sockets, name look-ups, signals, subprocesses and threads are
refused: they would end at a real moment. Callbacks run first in, first out, as asyncio promises; those of a
process (`simulation.engine.process`) wait while it is frozen, and are kept unrun when it is dead. It is the
only place that relies on private parts of the event loop; `test_virtualtime` pins them.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from itertools import count
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

import anyio

from simulation.engine.process import OWNER, ProcessState, VirtualProcess

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
VirtualBackend = tuple[str, dict[str, Any]]

# Many times what the largest test takes without any time passing.
TURNS_MAX = 1_000_000

CANCELLED_TIMERS_MAX = 2_000
"""So many cancelled timers are kept before they are cleared away, if they are the larger part."""


class Deadlock(RuntimeError):
    """Nothing can run and no timer is set: the awaited result would never come."""


class Livelock(RuntimeError):
    """Tasks keep each other busy without any time passing: on a real clock they would burn a processor."""


class CountedTask(asyncio.Task[Any]):
    """A task whose hash is its number on its loop, not its address."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class _Callback(asyncio.TimerHandle):
    """A callback and when it is due: what the loop needs of asyncio's handles, and no more."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., object], args: Any, loop: VirtualLoop, context: Context
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._scheduled = False
        self._repr = None
        self._source_traceback = None


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop that never waits: there is no I/O to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._now_nanoseconds = 0
        self._now_seconds = 0.0
        self._turns = 0
        self._ready: deque[_Callback] = deque()
        self._timers: list[tuple[int, int, _Callback]] = []
        self._timer_numbers = count()
        self._cancelled_timers = 0
        self._task_numbers = count(1)
        self._halted = 0
        self._skewed = False
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Virtual seconds since the loop was made, by the clock of the process that asks."""
        if self._skewed:
            process = OWNER.get()
            if process is not None:
                return self._now_seconds * process.rate
        return self._now_seconds

    @property
    def world_seconds(self) -> float:
        """Virtual seconds since the loop was made, whoever asks."""
        return self._now_seconds

    def block(self, seconds: float) -> None:
        """Let time pass as a blocking call does: nothing runs meanwhile, whatever was due is late."""
        self._set_now(self._now_nanoseconds + round(seconds * 1e9))

    # Processes.

    def skew(self) -> None:
        """From now on processes may have clocks of different rates."""
        self._skewed = True

    def freeze(self, process: VirtualProcess) -> None:
        """Run nothing of it until it is thawed."""
        if process.state is ProcessState.RUNNING:
            process.state = ProcessState.FROZEN
            self._halted += 1

    def thaw(self, process: VirtualProcess) -> None:
        """Let it go on, with all that became due meanwhile."""
        if process.state is ProcessState.FROZEN:
            self._resume(process)

    def kill(self, process: VirtualProcess) -> None:
        """Run nothing of it any more."""
        if process.state is ProcessState.RUNNING:
            self._halted += 1
        process.state = ProcessState.DEAD

    def bury(self, process: VirtualProcess) -> None:
        """The run is over: let the tasks of a dead process be cancelled like all others."""
        if process.state is ProcessState.DEAD:
            self._resume(process)

    def _resume(self, process: VirtualProcess) -> None:
        process.state = ProcessState.RUNNING
        self._halted -= 1
        # Through `_ready` in the order in which they became due.
        self._ready.extend(held for held in process.held if isinstance(held, _Callback))
        process.held.clear()

    # Callbacks.

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """See asyncio: run `callback` in the next turn."""
        handle = _Callback(0.0, callback, args, self, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio: run `callback` after `delay` seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio: run `callback` at that time."""
        seconds = when
        if self._skewed:
            process = OWNER.get()
            if process is not None:
                seconds = when / process.rate
        handle = _Callback(when, callback, args, self, copy_context() if context is None else context)
        if seconds == math.inf:
            return handle  # never due: no timer, so that a deadlock is seen as one
        due = round(seconds * 1e9)
        if due <= self._now_nanoseconds and when > self.time():
            # A time-out that was rounded down must not be re-armed for ever.
            due = self._now_nanoseconds + 1
        handle._scheduled = True  # noqa: SLF001 - ours
        heapq.heappush(self._timers, (due, next(self._timer_numbers), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle._scheduled:  # type: ignore[attr-defined] # noqa: SLF001 - as in asyncio
            self._cancelled_timers += 1

    def _make_task(
        self, _loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Future[Any]:
        return CountedTask(next(self._task_numbers), coroutine, loop=self, **options)

    # One turn.

    def _run_once(self) -> None:
        ready = self._ready
        if ready or self._stopping:  # type: ignore[attr-defined]
            self._turns += 1
            if self._turns > TURNS_MAX:
                self._turns = 0  # whoever reports this has tasks to cancel yet
                raise Livelock("\n".join([f"{TURNS_MAX} turns in one instant; tasks:", *_dump(self)]))
        else:
            self._advance()
        self._take_due()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:  # noqa: SLF001 - ours
                continue
            if self._halted:
                process = handle._context.get(OWNER)  # noqa: SLF001 - ours
                if process is not None and process.state is not ProcessState.RUNNING:
                    process.held.append(handle)
                    continue
            try:
                handle._context.run(handle._callback, *handle._args)  # noqa: SLF001
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as in asyncio: it ends no other callback
                text = f"Exception in callback {handle._callback!r}"  # noqa: SLF001
                self.call_exception_handler({"message": text, "exception": error, "handle": handle})

    def _advance(self) -> None:
        """Go to the next timer. Raises `Deadlock` if there is none."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:  # noqa: SLF001 - ours
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            raise Deadlock("\n".join(["no callback is ready and no timer is set; tasks:", *_dump(self)]))
        self._turns = 0
        if timers[0][0] > self._now_nanoseconds:
            self._set_now(timers[0][0])
        if self._cancelled_timers > CANCELLED_TIMERS_MAX and 2 * self._cancelled_timers > len(timers):
            timers[:] = [entry for entry in timers if not entry[2]._cancelled]  # noqa: SLF001
            heapq.heapify(timers)
            self._cancelled_timers = 0

    def _take_due(self) -> None:
        timers, now = self._timers, self._now_nanoseconds
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            handle._scheduled = False  # noqa: SLF001 - ours
            if handle._cancelled:  # noqa: SLF001 - ours
                self._cancelled_timers -= 1
            else:
                self._ready.append(handle)

    def _set_now(self, nanoseconds: int) -> None:
        self._now_nanoseconds = nanoseconds
        self._now_seconds = nanoseconds / 1e9

    def _write_to_self(self) -> None:
        """No wake-up is needed: the loop never sleeps."""

    # What ends at a real moment.

    def run_in_executor(self, *_args: object) -> NoReturn:
        """Refuse: a thread ends at a real moment, which virtual time has none of."""
        raise RuntimeError("no threads in virtual time")

    def _refuse(self, *_args: object, **_options: object) -> NoReturn:
        raise RuntimeError("no sockets, name look-ups, signals or subprocesses in virtual time")

    getaddrinfo = getnameinfo = create_connection = create_server = create_datagram_endpoint = _refuse
    create_unix_connection = create_unix_server = subprocess_exec = subprocess_shell = _refuse
    add_signal_handler = remove_signal_handler = add_reader = add_writer = _refuse
    connect_read_pipe = connect_write_pipe = sock_connect = sock_accept = sock_recv = sock_sendall = _refuse


VIRTUAL_BACKEND: VirtualBackend = ("asyncio", {"loop_factory": VirtualLoop})


def run_virtual(async_fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
    """Run `async_fn(*args)` on a new virtual loop and return its result."""
    return anyio.run(async_fn, *args, backend=VIRTUAL_BACKEND[0], backend_options=VIRTUAL_BACKEND[1])


def running_virtual_loop() -> VirtualLoop:
    """The loop that runs, which must be a virtual one."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)  # noqa: S101 - simulations run nowhere else
    return loop


def block(seconds: float) -> None:
    """Block the running virtual loop, as a call of `time.sleep` would."""
    running_virtual_loop().block(seconds)


def _dump(loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name):
        frames: list[str] = []
        awaited: object = task.get_coro()
        while frame := getattr(awaited, "cr_frame", None):
            frames.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
            awaited = getattr(awaited, "cr_await", None)
        yield f"  {task.get_name()}: {' > '.join(frames)}"
