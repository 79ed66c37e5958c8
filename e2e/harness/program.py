"""The controller as users run it: the installed program in a process of its own.

It gets the kubeconfig with the shipped rights only, and a retry interval of an hour unless told otherwise:
what a test sees happen was then caused by a wake-up and never by the clock.
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


class ControllerFault(AssertionError):
    """The controller ended by itself, or logged an error."""


class Running(Protocol):
    """A controller at work, wherever it runs."""

    def stop(self) -> int:
        """Ask it to stop; return its exit status, the worst one of several."""


class ControllerProcess:
    """A running controller and what it logs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def __repr__(self) -> str:
        return f"<ControllerProcess pid={self.process.pid} running={self.process.poll() is None}>"

    @property
    def log(self) -> str:
        """Everything logged so far."""
        return self._log.read_text()

    def await_logged(self, text: str) -> None:
        """Return once the log holds `text`; an ended process is an error at once."""

        def logged() -> bool:
            if self.process.poll() is not None:
                raise ControllerFault(f"the controller ended with {self.process.returncode}:\n{self.log}")
            return text in self.log

        wait_until(logged, f"the controller does not log {text!r}", timeout_seconds=START_SECONDS)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self) -> int:
        """Ask it to stop; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def running_controller(
    cluster: Cluster, log: Path, flags: Mapping[str, str] | None = None
) -> Iterator[ControllerProcess]:
    """Run a controller against the cluster while the block runs; it must not have logged an error."""
    settings = {**DEFAULT_FLAGS, "--kubeconfig": str(cluster.controller_kubeconfig), **(flags or {})}
    command = [str(PROGRAM), *(f"{name}={value}" for name, value in settings.items())]
    with _guarded_process(command, log) as process:
        controller = ControllerProcess(process, log)
        controller.await_logged("Started reconciling")
        yield controller
    require_no_faults(controller.log)


def require_no_faults(log: str) -> None:
    """Raise ControllerFault if an error was logged."""
    faults = [line for line in log.splitlines() if '"level":"error"' in line or "Traceback" in line]
    if faults:
        raise ControllerFault("\n".join(faults))


@contextmanager
def _guarded_process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that neither outlives this one nor sees the Ctrl-C that is meant for it.

    Its temporary files go where its log is, so that they go with it even if it is killed.
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
