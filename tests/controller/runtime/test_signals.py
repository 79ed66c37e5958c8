"""The first signal asks for a stop in order, the second ends the process, whatever the loop is doing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from controller.runtime.signals import SIGNALS, shutdown_signals

PROGRAM = """
import os, sys, time, anyio
from controller.runtime.cli import run_command
from controller.runtime.signals import shutdown_signals

async def run(settings):
    async with shutdown_signals() as stop:
        print("up", flush=True)
        {body}
    return 0

sys.exit(run_command(["--log-format=json"], {{}}, run, stdout=sys.stdout, stderr=sys.stderr))
"""
STOPS = "await stop.wait()"
DRAINS_FOR_EVER = "await stop.wait(); print('draining', flush=True); await anyio.sleep_forever()"
STUCK = "exec('while True: pass')"


@contextmanager
def program(body: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is up, with `body` as its run."""
    command = [sys.executable, "-c", PROGRAM.format(body=body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_a_request_and_the_process_ends_with_0(number: signal.Signals) -> None:
    with program(STOPS) as process:
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)
        assert process.returncode == 0
        assert f'"msg":"Received stop signal","signal":"{number.name}"' in stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_during_the_drain_ends_it_at_once_with_1(number: signal.Signals) -> None:
    with program(DRAINS_FOR_EVER) as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "draining\n"
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "Traceback" not in stderr


def test_a_second_signal_ends_even_a_process_whose_loop_is_stuck() -> None:
    with program(STUCK) as process:
        while process.poll() is None:  # the two are merged if the first was not delivered yet
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
        assert process.returncode == 1


@pytest.mark.anyio
async def test_a_signal_wakes_a_loop_that_has_nothing_to_do() -> None:
    command = ["sh", "-c", f"read line; kill -TERM {os.getpid()}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as sender:  # noqa: ASYNC220 - started before the wait
        assert sender.stdin is not None
        async with shutdown_signals() as stop:
            sender.stdin.write(b"now\n")
            sender.stdin.flush()
            with anyio.fail_after(5) as scope:
                await stop.wait()
            assert anyio.current_time() < scope.deadline  # woken by the signal, not by the deadline


@pytest.mark.anyio
async def test_former_handlers_come_back() -> None:
    former = [signal.getsignal(number) for number in SIGNALS]
    async with shutdown_signals() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        with anyio.fail_after(5):
            await stop.wait()
    assert [signal.getsignal(number) for number in SIGNALS] == former
