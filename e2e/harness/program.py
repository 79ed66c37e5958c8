"""The installed program in its own process, as users run it.

It has only the permissions of the shipped manifests. Its retry interval is an hour by default, so that
everything that a test observes was triggered by an event and not by the timer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from e2e.controlplane import Cluster, wait_until
from e2e.controlplane.processes.guard import Guard

PROGRAM = Path(sys.executable).with_name("open-rl-scheduler")
START_SECONDS = 30
STOP_SECONDS = 30

DEFAULT_FLAGS: Mapping[str, str] = {
    "--retry-interval": "1h",
    "--leader-elect": "false",
    "--health-probe-bind-address": "0",
    "--log-format": "json",
}


class ControllerError(AssertionError):
    """The controller ended unexpectedly or logged an error."""


class Running(Protocol):
    """A running controller, as a process or a Deployment."""

    def stop(self) -> int:
        """Stop the controller and return its exit status: the highest one if it has several processes."""


class ControllerProcess:
    """A running controller and its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def __repr__(self) -> str:
        return f"<ControllerProcess pid={self.process.pid} running={self.process.poll() is None}>"

    @property
    def log(self) -> str:
        """The log so far."""
        return self._log.read_text()

    def await_logged(self, text: str) -> None:
        """Wait until the log contains `text`. Raises at once if the process has ended."""

        def logged() -> bool:
            if self.process.poll() is not None:
                raise ControllerError(f"the controller ended with {self.process.returncode}:\n{self.log}")
            return text in self.log

        wait_until(logged, f"the controller has not logged {text!r}", timeout_seconds=START_SECONDS)

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self) -> int:
        """Stop the process with SIGTERM and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def running_controller(
    cluster: Cluster, log: Path, flags: Mapping[str, str] | None = None
) -> Iterator[ControllerProcess]:
    """Run a controller while the block runs. Raises `ControllerError` if it has logged an error."""
    settings = {**DEFAULT_FLAGS, "--kubeconfig": str(cluster.controller_kubeconfig), **(flags or {})}
    command = [str(PROGRAM), *(f"{name}={value}" for name, value in settings.items())]
    with _guarded_process(command, log) as process:
        controller = ControllerProcess(process, log)
        controller.await_logged("Started reconciling")
        yield controller
    require_no_errors(controller.log)


def require_no_errors(log: str) -> None:
    """Raise `ControllerError` if the log contains an error."""
    errors = [line for line in log.splitlines() if '"level":"error"' in line or "Traceback" in line]
    if errors:
        raise ControllerError("\n".join(errors))


@contextmanager
def _guarded_process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that ends with this process and does not receive the terminal's Ctrl-C.

    Its temporary files are in the folder of its log, so that they are removed with it even after a kill.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPEN_RL_")}
    guard = Guard(None)
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**environment, "TMPDIR": str(log.parent)},
                process_group=guard.process_group,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(STOP_SECONDS)
    finally:
        guard.dismiss()
