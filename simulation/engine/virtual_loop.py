"""Virtual time for asyncio: the clock jumps to the next timer when no callback is ready.

An hour of virtual time costs as much as the callbacks in it. A program that would hang forever fails at once
with `Deadlock` and a dump of all tasks. The clocks, sleeps and timeouts of asyncio and anyio follow the
loop's `time()`. Use `run_virtual(async_fn)`, or for a whole test module::

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend() -> VirtualBackend:
        return VIRTUAL_BACKEND

The clock starts at 0 and counts integer nanoseconds, so `0.1 + 0.2` is `0.3` here. Timers that are due at
the same time fire in the order of their creation. Tasks hash by creation order, so sets of tasks have one
order in every run. Sockets, DNS lookups, signals, subprocesses and threads raise an error, because they
complete in real time. Callbacks run first in, first out, as asyncio guarantees. The callbacks of a frozen
process (`simulation.engine.process`) wait, and those of a dead one never run. Only this module relies on
private parts of the event loop; `test_virtualtime` pins them.
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

from simulation.engine.process import CURRENT_PROCESS, ProcessState, VirtualProcess

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
VirtualBackend = tuple[str, dict[str, Any]]

# Many times the maximum that any test needs without time passing.
ITERATIONS_MAX = 1_000_000

CANCELLED_TIMERS_MAX = 2_000
"""Above this number, cancelled timers are removed from the heap if they are the majority."""


class Deadlock(RuntimeError):
    """No callback is ready and no timer is set: the program would wait forever."""


class Livelock(RuntimeError):
    """Tasks keep running without any time passing: on a real clock they would burn a CPU."""


class CountedTask(asyncio.Task[Any]):
    """A task that hashes by its creation number on its loop, not by its address."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class _Callback(asyncio.TimerHandle):
    """A callback and its due time: the subset of asyncio's handles that this loop uses."""

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
    """An event loop without I/O, which therefore never blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._now_nanoseconds = 0
        self._now_seconds = 0.0
        self._iterations = 0
        self._ready: deque[_Callback] = deque()
        self._timers: list[tuple[int, int, _Callback]] = []
        self._timer_numbers = count()
        self._cancelled_timers = 0
        self._task_numbers = count(1)
        self._halted_processes = 0
        self._is_skewed = False
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Return virtual seconds since the loop was created, on the clock of the current process."""
        if self._is_skewed:
            process = CURRENT_PROCESS.get()
            if process is not None:
                return self._now_seconds * process.rate
        return self._now_seconds

    @property
    def simulated_seconds(self) -> float:
        """Virtual seconds since the loop was created, without the clock skew of any process."""
        return self._now_seconds

    def block(self, seconds: float) -> None:
        """Let time pass as a blocking call does: no callback runs, and due timers fire late."""
        self._set_now(self._now_nanoseconds + round(seconds * 1e9))

    # Processes.

    def enable_skew(self) -> None:
        """Apply the clock rates of processes from now on."""
        self._is_skewed = True

    def freeze(self, process: VirtualProcess) -> None:
        """Run no callback of the process until it is thawed."""
        if process.state is ProcessState.RUNNING:
            process.state = ProcessState.FROZEN
            self._halted_processes += 1

    def thaw(self, process: VirtualProcess) -> None:
        """Resume the process, and run all callbacks that became due meanwhile."""
        if process.state is ProcessState.FROZEN:
            self._resume(process)

    def kill(self, process: VirtualProcess) -> None:
        """Run no callback of the process again."""
        if process.state is ProcessState.RUNNING:
            self._halted_processes += 1
        process.state = ProcessState.DEAD

    def release(self, process: VirtualProcess) -> None:
        """Allow the tasks of a dead process to be cancelled like all others, once a run is over."""
        if process.state is ProcessState.DEAD:
            self._resume(process)

    def _resume(self, process: VirtualProcess) -> None:
        process.state = ProcessState.RUNNING
        self._halted_processes -= 1
        # They became due in this order.
        self._ready.extend(callback for callback in process.held_callbacks if isinstance(callback, _Callback))
        process.held_callbacks.clear()

    # Callbacks.

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run `callback` in the next iteration, as asyncio does."""
        handle = _Callback(0.0, callback, args, self, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Do the same as `call_soon`: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run `callback` after `delay` seconds, as asyncio does."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run `callback` at a time on the current process's clock, as asyncio does."""
        seconds = when
        if self._is_skewed:
            process = CURRENT_PROCESS.get()
            if process is not None:
                seconds = when / process.rate
        handle = _Callback(when, callback, args, self, copy_context() if context is None else context)
        if seconds == math.inf:
            return handle  # never due: without a timer a deadlock is detected
        due = round(seconds * 1e9)
        if due <= self._now_nanoseconds and when > self.time():
            # A timeout that was rounded down must not be re-armed forever.
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

    # One iteration.

    def _run_once(self) -> None:
        ready = self._ready
        if ready or self._stopping:  # type: ignore[attr-defined]
            self._iterations += 1
            if self._iterations > ITERATIONS_MAX:
                self._iterations = 0  # the caller still has tasks to cancel
                problem = f"{ITERATIONS_MAX} iterations without time passing; tasks:"
                raise Livelock("\n".join([problem, *_dump(self)]))
        else:
            self._advance()
        self._collect_due()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:  # noqa: SLF001 - ours
                continue
            if self._halted_processes:
                process = handle._context.get(CURRENT_PROCESS)  # noqa: SLF001 - ours
                if process is not None and process.state is not ProcessState.RUNNING:
                    process.held_callbacks.append(handle)
                    continue
            try:
                handle._context.run(handle._callback, *handle._args)  # noqa: SLF001
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as in asyncio: other callbacks run
                text = f"Exception in callback {handle._callback!r}"  # noqa: SLF001
                self.call_exception_handler({"message": text, "exception": error, "handle": handle})

    def _advance(self) -> None:
        """Advance the clock to the next timer. Raises `Deadlock` if there is none."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:  # noqa: SLF001 - ours
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            raise Deadlock("\n".join(["no callback is ready and no timer is set; tasks:", *_dump(self)]))
        self._iterations = 0
        if timers[0][0] > self._now_nanoseconds:
            self._set_now(timers[0][0])
        if self._cancelled_timers > CANCELLED_TIMERS_MAX and 2 * self._cancelled_timers > len(timers):
            timers[:] = [entry for entry in timers if not entry[2]._cancelled]  # noqa: SLF001
            heapq.heapify(timers)
            self._cancelled_timers = 0

    def _collect_due(self) -> None:
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
        """Do nothing: the loop never sleeps."""

    # Operations that complete in real time.

    def run_in_executor(self, *_args: object) -> NoReturn:
        """Refuse: a thread completes in real time."""
        raise RuntimeError("no threads in virtual time")

    def _refuse(self, *_args: object, **_options: object) -> NoReturn:
        raise RuntimeError("no sockets, DNS lookups, signals or subprocesses in virtual time")

    getaddrinfo = getnameinfo = create_connection = create_server = create_datagram_endpoint = _refuse
    create_unix_connection = create_unix_server = subprocess_exec = subprocess_shell = _refuse
    add_signal_handler = remove_signal_handler = add_reader = add_writer = _refuse
    connect_read_pipe = connect_write_pipe = sock_connect = sock_accept = sock_recv = sock_sendall = _refuse


VIRTUAL_BACKEND: VirtualBackend = ("asyncio", {"loop_factory": VirtualLoop})


def run_virtual(async_fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
    """Run `async_fn(*args)` on a new virtual loop and return its result."""
    return anyio.run(async_fn, *args, backend=VIRTUAL_BACKEND[0], backend_options=VIRTUAL_BACKEND[1])


def running_virtual_loop() -> VirtualLoop:
    """Return the running loop, which must be a virtual one."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)  # noqa: S101 - simulations run on no other loop
    return loop


def block(seconds: float) -> None:
    """Block the running virtual loop, as `time.sleep` would."""
    running_virtual_loop().block(seconds)


def _dump(loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name):
        frames: list[str] = []
        awaited: object = task.get_coro()
        while frame := getattr(awaited, "cr_frame", None):
            frames.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
            awaited = getattr(awaited, "cr_await", None)
        yield f"  {task.get_name()}: {' > '.join(frames)}"
