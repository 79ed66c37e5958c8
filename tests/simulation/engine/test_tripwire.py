"""Code of the project that touches what no seed can replay fails the run, wherever it does so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FunctionType
from typing import Any

import pytest

import controller.queue.scheduling_queue
from controller.queue.scheduling_queue import SchedulingQueue
from simulation.engine.tripwire import tripwire
from simulation.run.simulate import simulate

SOURCES = {
    "time.time": "import time; time.time()",
    "time.monotonic": "import time; time.monotonic()",
    "random.random": "import random; random.random()",
    "SystemRandom.random": "import random; random.SystemRandom().random()",
    "uuid.uuid4": "import uuid; uuid.uuid4()",
    "secrets.token_hex": "import secrets; secrets.token_hex()",
    "os.urandom": "import os; os.urandom(1)",
    "socket.gethostname": "import socket; socket.gethostname()",
    "socket.__init__": "import socket; socket.socket().close()",
    "Thread.start": "import threading; threading.Thread(target=int).start()",
    "_Environ.__getitem__": "import os; os.environ.get('HOME')",
}


def in_module(source: str, module: Any = controller.queue.scheduling_queue) -> Callable[[], None]:
    """A function of that source, as if it stood in a module."""
    return FunctionType(compile(source, module.__file__, "exec"), vars(module))


@pytest.mark.parametrize("what", SOURCES)
def test_a_touch_is_noted_with_its_place(what: str) -> None:
    touch = in_module(SOURCES[what])
    with tripwire() as trips:
        touch()

    assert trips.lines() == [f"controller.queue.scheduling_queue:1 used {what}"]


def test_a_touch_from_elsewhere_passes() -> None:
    with tripwire() as trips:
        assert time.time() > 0
        assert datetime.now(UTC).year > 2000

    assert trips.lines() == []


def test_classes_that_tell_the_time_are_stood_in_for_in_modules_of_the_project() -> None:
    module: Any = controller.queue.scheduling_queue
    module.datetime = datetime
    try:
        with tripwire() as trips:
            in_module("datetime.now()")()
            in_module("assert isinstance(datetime(2030, 1, 1), datetime)")()
            assert trips.lines() == ["controller.queue.scheduling_queue:1 used datetime.now"]
        assert module.datetime is datetime
    finally:
        del module.datetime


@contextmanager
def a_line_that_looks_at_the_clock() -> Iterator[None]:
    known = SchedulingQueue.__len__
    touch = in_module("import time; time.time()")

    def length(self: SchedulingQueue) -> int:
        touch()
        return known(self)

    SchedulingQueue.__len__ = length  # type: ignore[method-assign]
    try:
        yield
    finally:
        SchedulingQueue.__len__ = known  # type: ignore[method-assign]


@pytest.mark.timeout(240)
def test_a_run_that_touches_the_clock_fails() -> None:
    outcome = simulate(1, around=a_line_that_looks_at_the_clock())

    assert "not replayable: controller.queue.scheduling_queue:1 used time.time" in outcome.failures
