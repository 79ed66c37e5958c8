"""Notices project code that touches what no seed can replay.

That is real time, global chance, identifiers, sockets, threads, processes and the environment.

While `tripwire` is entered, the functions that lead there are replaced by ones that look at who calls. A
call from a module of the project is noted, with its place, and carried out: the run goes on and fails in the
end. Calls from libraries pass unseen; if one of them matters, the digests of two runs differ. `datetime.now`
has no function to replace: in every module of the project the class itself is stood in for.
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
_GLOBAL_CHANCE = (
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
    (random, _GLOBAL_CHANCE),
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

_CONDUITS = ("os", "_collections_abc", "collections.abc", "random", "contextlib")
"""Modules whose frames only pass a call on."""

_NOW = ("now", "utcnow", "today")


class Trips:
    """What project code touched: places, each once, in the order in which they were first seen."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<Trips {len(self._found)}>"

    def note(self, what: str, frame: FrameType | None) -> None:
        """Note a call of `what` from `frame`, if it is of the project."""
        while frame is not None and frame.f_globals.get("__name__") in _CONDUITS:
            frame = frame.f_back
        module = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
        if frame is not None and module.partition(".")[0] in PACKAGES:
            self._found[f"{module}:{frame.f_lineno} used {what}"] = None

    def lines(self) -> list[str]:
        """One sentence for each place."""
        return list(self._found)


@contextmanager
def tripwire() -> Iterator[Trips]:
    """Watch project code in the block."""
    trips = Trips()
    with ExitStack() as undo:
        stand_ins: dict[int, Any] = {}
        for owner, names in _FUNCTIONS:
            for name in names:
                known = getattr(owner, name)
                stand_in = _watched(known, f"{owner.__name__}.{name}", trips)
                stand_ins[id(known)] = stand_in
                _replace(owner, name, stand_in, undo)
        for known in (datetime, date):
            stand_ins[id(known)] = _Calendar(known, trips)
        for module in _project_modules():
            for name, value in list(vars(module).items()):
                if id(value) in stand_ins:
                    _replace(module, name, stand_ins[id(value)], undo)
        yield trips


def _watched(known: Callable[..., Any], what: str, trips: Trips) -> Callable[..., Any]:
    def stand_in(*args: Any, **options: Any) -> Any:
        trips.note(what, sys._getframe(1))  # noqa: SLF001 - the caller is what this is about
        return known(*args, **options)

    return stand_in


class _Calendar:
    """Stands in for `datetime` or `date`: the class, but for the methods that read the clock."""

    def __init__(self, known: type[date], trips: Trips) -> None:
        self._known = known
        self._trips = trips

    def __call__(self, *args: Any, **options: Any) -> date:
        return self._known(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name in _NOW:
            self._trips.note(f"{self._known.__name__}.{name}", sys._getframe(1))  # noqa: SLF001
        return getattr(self._known, name)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._known)

    def __or__(self, other: object) -> object:
        return self._known | other  # in annotations that are evaluated late


def _project_modules() -> list[ModuleType]:
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] in PACKAGES and name != __name__
    ]


def _replace(owner: Any, name: str, value: Any, undo: ExitStack) -> None:
    """Set an attribute until the stack is closed; what was inherited is inherited again."""
    own = vars(owner)
    if name in own:
        undo.callback(setattr, owner, name, own[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)
