"""A run fails if project code uses something that no seed can replay."""

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
    """Return a function with this source, which runs in the namespace of a module."""
    return FunctionType(compile(source, module.__file__, "exec"), vars(module))


@pytest.mark.parametrize("function", SOURCES)
def test_a_call_is_recorded_with_its_location(function: str) -> None:
    call = in_module(SOURCES[function])
    with tripwire() as trips:
        call()

    assert trips.lines() == [f"controller.queue.scheduling_queue:1 used {function}"]


def test_calls_from_outside_the_project_are_ignored() -> None:
    with tripwire() as trips:
        assert time.time() > 0
        assert datetime.now(UTC).year > 2000

    assert trips.lines() == []


def test_datetime_is_proxied_in_project_modules() -> None:
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
def a_queue_that_reads_the_clock() -> Iterator[None]:
    original = SchedulingQueue.__len__
    call = in_module("import time; time.time()")

    def length(self: SchedulingQueue) -> int:
        call()
        return original(self)

    SchedulingQueue.__len__ = length  # type: ignore[method-assign]
    try:
        yield
    finally:
        SchedulingQueue.__len__ = original  # type: ignore[method-assign]


@pytest.mark.timeout(240)
def test_a_run_that_reads_the_clock_fails() -> None:
    outcome = simulate(1, around=a_queue_that_reads_the_clock())

    assert "not replayable: controller.queue.scheduling_queue:1 used time.time" in outcome.failures
