"""Detection of project code that uses something that no seed can replay.

Such things are real time, global randomness, UUIDs, sockets, threads, processes and the environment.

Inside `tripwire`, wrappers that check the caller replace the functions in question. A call from a project
module is recorded with its location and carried out; the run continues and fails at the end. Calls from
libraries are ignored; if one of them matters, the digests of two runs differ. `datetime.now` is a method of
an immutable class, so a proxy replaces the class itself in every project module.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, datetime
from types import FrameType, ModuleType
from typing import Any

PACKAGES = ("controller", "informers", "ledger", "placement", "simulation")

_CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "sleep",
    "localtime",
)
_GLOBAL_RANDOM = (
    "random",
    "uniform",
    "randint",
    "randrange",
    "choice",
    "choices",
    "sample",
    "shuffle",
    "gauss",
    "expovariate",
    "getrandbits",
    "seed",
)

_FUNCTIONS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (time, _CLOCKS),
    (random, _GLOBAL_RANDOM),
    (random.SystemRandom, ("random", "getrandbits")),
    (secrets, ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "choice")),
    (uuid, ("uuid1", "uuid4")),
    (os, ("urandom", "getpid", "fork", "system")),
    (socket, ("gethostname", "getaddrinfo", "create_connection")),
    (socket.socket, ("__init__",)),
    (threading.Thread, ("start",)),
    (subprocess.Popen, ("__init__",)),
    (type(os.environ), ("__getitem__", "__iter__")),
)

_PASS_THROUGH_MODULES = ("os", "_collections_abc", "collections.abc", "random", "contextlib")
"""Modules whose frames are skipped when the caller is determined."""

_NOW = ("now", "utcnow", "today")


class Trips:
    """The recorded calls by location, each once, in the order of the first call."""

    def __init__(self) -> None:
        self._locations: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<Trips {len(self._locations)}>"

    def record(self, function: str, frame: FrameType | None) -> None:
        """Record a call of `function` if `frame` belongs to the project."""
        while frame is not None and frame.f_globals.get("__name__") in _PASS_THROUGH_MODULES:
            frame = frame.f_back
        module = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
        if frame is not None and module.partition(".")[0] in PACKAGES:
            self._locations[f"{module}:{frame.f_lineno} used {function}"] = None

    def lines(self) -> list[str]:
        """Return one sentence per location."""
        return list(self._locations)


@contextmanager
def tripwire() -> Iterator[Trips]:
    """Record the calls of project code in the block."""
    trips = Trips()
    with ExitStack() as undo:
        wrappers: dict[int, Any] = {}
        for owner, names in _FUNCTIONS:
            for name in names:
                original = getattr(owner, name)
                wrapper = _wrapped(original, f"{owner.__name__}.{name}", trips)
                wrappers[id(original)] = wrapper
                _replace(owner, name, wrapper, undo)
        for original in (datetime, date):
            wrappers[id(original)] = _DateProxy(original, trips)
        for module in _project_modules():
            for name, value in list(vars(module).items()):
                if id(value) in wrappers:
                    _replace(module, name, wrappers[id(value)], undo)
        yield trips


def _wrapped(original: Callable[..., Any], name: str, trips: Trips) -> Callable[..., Any]:
    def wrapper(*args: Any, **options: Any) -> Any:
        trips.record(name, sys._getframe(1))  # noqa: SLF001 - the caller decides
        return original(*args, **options)

    return wrapper


class _DateProxy:
    """A proxy of `datetime` or `date` that records calls of the methods that read the clock."""

    def __init__(self, original: type[date], trips: Trips) -> None:
        self._original = original
        self._trips = trips

    def __call__(self, *args: Any, **options: Any) -> date:
        return self._original(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name in _NOW:
            self._trips.record(f"{self._original.__name__}.{name}", sys._getframe(1))  # noqa: SLF001
        return getattr(self._original, name)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._original)

    def __or__(self, other: object) -> object:
        return self._original | other  # in annotations that are evaluated late


def _project_modules() -> list[ModuleType]:
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] in PACKAGES and name != __name__
    ]


def _replace(owner: Any, name: str, value: Any, undo: ExitStack) -> None:
    """Set an attribute until the stack is closed. An inherited attribute is deleted again, not set."""
    own = vars(owner)
    if name in own:
        undo.callback(setattr, owner, name, own[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)
