"""The controller of a demo: the program as shipped, in a process of its own that does not outlive this one.

Run as `python -m simulation.demo.program <flags of the program>` it is that process: the program's own
`main`, beside a thread that ends it once its standard input does. A demo that is killed closes that pipe like
one that ends.
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
LOOK_INTERVAL_SECONDS = 0.02
LOG_LINES = 10

READY = "Started reconciling"
_FAULTS = ('"level":"error"', "Traceback")


class ControllerProcess:
    """A running controller and what it logs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def __repr__(self) -> str:
        return f"<ControllerProcess pid={self._process.pid} running={self._process.poll() is None}>"

    @property
    def log(self) -> str:
        """Everything logged so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def require_alive(self) -> None:
        """Raise `DemoFailed` if it has ended, with its last words as notes."""
        status = self._process.poll()
        if status is not None:
            raise self._failed(f"the controller ended with status {status}")

    async def wait_ready(self) -> None:
        """Return once it reconciles. Raises `DemoFailed`."""
        with anyio.move_on_after(START_SECONDS):
            while READY not in self.log:
                self.require_alive()
                await anyio.sleep(LOOK_INTERVAL_SECONDS)
            return
        raise self._failed(f"the controller does not reconcile within {START_SECONDS:g} s")

    async def stop(self) -> None:
        """Stop it as a cluster would. Raises `DemoFailed` for anything but a clean end without errors."""
        self.require_alive()
        self._process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(STOP_SECONDS):
            while self._process.poll() is None:  # noqa: ASYNC110 - the system tells nobody else
                await anyio.sleep(LOOK_INTERVAL_SECONDS)
        if self._process.returncode != 0:
            raise self._failed(f"the controller stopped with status {self._process.returncode} instead of 0")
        faults = [line for line in self.log.splitlines() if any(fault in line for fault in _FAULTS)]
        if faults:
            raise self._failed(f"the controller logged an error: {faults[0]}")

    def _failed(self, what: str) -> DemoFailed:
        failure = DemoFailed(what)
        for line in self.log.splitlines()[-LOG_LINES:]:
            failure.add_note(f"controller: {line}")
        return failure


@asynccontextmanager
async def running_controller(
    flags: Mapping[str, str], log: Path, environ: Mapping[str, str]
) -> AsyncIterator[ControllerProcess]:
    """Run a controller while the block runs, from the moment it reconciles; what is left then is killed.

    Of `environ` it does not see what would change its settings.
    """
    command = [sys.executable, "-m", __name__, *(f"{name}={value}" for name, value in flags.items())]
    ours = {name: value for name, value in environ.items() if not name.startswith(("OPEN_RL_", "POD_"))}
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "NO_COLOR"):
        ours.pop(name, None)
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - ourselves; forking takes no time worth awaiting
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**ours, "PYTHONPATH": os.pathsep.join(sys.path)},
            process_group=0,  # Ctrl-C in the terminal is meant for the demo, which then stops it in order
        )
    try:
        controller = ControllerProcess(process, log)
        await controller.wait_ready()
        yield controller
    finally:
        process.kill()
        process.communicate()


def _end_with_the_demo() -> None:
    # Not through sys.stdin: its lock would be held by this thread when the interpreter ends.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    main()
