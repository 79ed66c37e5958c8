"""Tests of shutdown signals: the first requests a stop, the second ends the process."""

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
STOP = "await stop.wait()"
DRAIN_FOREVER = "await stop.wait(); print('draining', flush=True); await anyio.sleep_forever()"
BLOCKED_LOOP = "exec('while True: pass')"


@contextmanager
def program(body: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that runs `body`, and wait until it is up."""
    command = [sys.executable, "-c", PROGRAM.format(body=body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_requests_a_stop_with_status_0(number: signal.Signals) -> None:
    with program(STOP) as process:
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)
        assert process.returncode == 0
        assert f'"msg":"Received stop signal","signal":"{number.name}"' in stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_during_the_drain_ends_the_process_with_status_1(number: signal.Signals) -> None:
    with program(DRAIN_FOREVER) as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "draining\n"
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "Traceback" not in stderr


def test_a_second_signal_ends_a_process_with_a_blocked_loop() -> None:
    with program(BLOCKED_LOOP) as process:
        while process.poll() is None:  # pending signals of one kind are merged
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
        assert process.returncode == 1


@pytest.mark.anyio
async def test_a_signal_interrupts_an_idle_loop() -> None:
    command = ["sh", "-c", f"read line; kill -TERM {os.getpid()}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as sender:  # noqa: ASYNC220 - started before the wait
        assert sender.stdin is not None
        async with shutdown_signals() as stop:
            sender.stdin.write(b"now\n")
            sender.stdin.flush()
            with anyio.fail_after(5) as scope:
                await stop.wait()
            assert anyio.current_time() < scope.deadline  # the signal, not the deadline, ended the wait


@pytest.mark.anyio
async def test_the_previous_handlers_are_restored() -> None:
    previous = [signal.getsignal(number) for number in SIGNALS]
    async with shutdown_signals() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        with anyio.fail_after(5):
            await stop.wait()
    assert [signal.getsignal(number) for number in SIGNALS] == previous
