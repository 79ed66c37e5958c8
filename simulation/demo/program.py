"""The controller of a demo: the shipped program in a process that never outlives this one.

`python -m simulation.demo.program <flags of the program>` is that process. It runs the program's `main`, and
a thread that ends the process when standard input is closed. That happens even if the demo is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from controller.main import main
from simulation.demo.stage import DemoFailed

START_SECONDS = 30.0
STOP_SECONDS = 30.0
POLL_INTERVAL_SECONDS = 0.02
LOG_LINES = 10

READY = "Started reconciling"
_ERROR_MARKERS = ('"level":"error"', "Traceback")


class ControllerProcess:
    """A running controller and its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def __repr__(self) -> str:
        return f"<ControllerProcess pid={self._process.pid} running={self._process.poll() is None}>"

    @property
    def log(self) -> str:
        """The log so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def require_alive(self) -> None:
        """Raise `DemoFailed` if the process has ended, with the end of its log as notes."""
        status = self._process.poll()
        if status is not None:
            raise self._failed(f"the controller ended with status {status}")

    async def wait_ready(self) -> None:
        """Wait until the controller reconciles. Raises `DemoFailed`."""
        with anyio.move_on_after(START_SECONDS):
            while READY not in self.log:
                self.require_alive()
                await anyio.sleep(POLL_INTERVAL_SECONDS)
            return
        raise self._failed(f"the controller did not start reconciling within {START_SECONDS:g} s")

    async def stop(self) -> None:
        """Stop the controller with SIGTERM. Raises `DemoFailed` if it exits with or has logged an error."""
        self.require_alive()
        self._process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(STOP_SECONDS):
            while self._process.poll() is None:  # noqa: ASYNC110 - there is no event to wait for
                await anyio.sleep(POLL_INTERVAL_SECONDS)
        if self._process.returncode != 0:
            raise self._failed(f"the controller stopped with status {self._process.returncode} instead of 0")
        errors = [line for line in self.log.splitlines() if any(marker in line for marker in _ERROR_MARKERS)]
        if errors:
            raise self._failed(f"the controller logged an error: {errors[0]}")

    def _failed(self, what: str) -> DemoFailed:
        failure = DemoFailed(what)
        for line in self.log.splitlines()[-LOG_LINES:]:
            failure.add_note(f"controller: {line}")
        return failure


@asynccontextmanager
async def running_controller(
    flags: Mapping[str, str], log: Path, environ: Mapping[str, str]
) -> AsyncIterator[ControllerProcess]:
    """Run a controller while the block runs, and enter the block once it reconciles.

    The process is killed at the end. It does not inherit variables of `environ` that change its settings.
    """
    command = [sys.executable, "-m", __name__, *(f"{name}={value}" for name, value in flags.items())]
    own_environ = {
        name: value for name, value in environ.items() if not name.startswith(("OPEN_RL_", "POD_"))
    }
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "NO_COLOR"):
        own_environ.pop(name, None)
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - a short call with our own arguments
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**own_environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            process_group=0,  # so that Ctrl-C in the terminal reaches only the demo, which then stops it
        )
    try:
        controller = ControllerProcess(process, log)
        await controller.wait_ready()
        yield controller
    finally:
        process.kill()
        process.communicate()


def _end_with_the_demo() -> None:
    # Not through sys.stdin: this thread would hold its lock when the interpreter exits.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    main()
