"""A process of the control plane.

Invariant: after `stop` or `kill`, the process has ended and its ports are free. A terminating API server
still answers `/readyz` for a while, so without the wait its successor on the same port would look ready.
"""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from e2e.controlplane.errors import ComponentEnded, ControlPlaneError

TAIL_LINES = 15
TAIL_BYTES = 16_384


class Component:
    """A named process with a log file, in the process group of a guard."""

    def __init__(self, name: str, command: Sequence[str], *, folder: Path, process_group: int) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = folder / f"{name}.log"
        self._folder = folder
        self._process_group = process_group
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        self._log_start = 0  # start of the log of the current process

    def __repr__(self) -> str:
        state = "paused" if self._paused else "running" if self.running else "stopped"
        return f"<Component {self.name} {state}>"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        if self.running:
            return
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = self._spawn(log)

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        # HOME and TMPDIR are in the run folder, so that no files remain elsewhere.
        environment = {"HOME": str(self._folder), "TMPDIR": str(self._folder)}
        try:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=environment,
                process_group=self._process_group,
            )
        except OSError as error:
            raise ComponentEnded(
                f"{self.name} cannot be started: {self.command[0]}: {error.strerror}"
            ) from error

    def stop(self, *, grace_seconds: float = 5) -> None:
        """Terminate the process, kill it after `grace_seconds`, and return when it has ended."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            self.resume()  # a paused process cannot handle the signal
            try:
                process.wait(grace_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        self._process = None

    def kill(self) -> None:
        """Kill the process, and return when it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._paused = False

    def pause(self) -> None:
        """Pause the process. Its connections stay open, and it does not answer."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._signal(signal.SIGCONT)
            self._paused = False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise ComponentEnded(f"{self.name} is not running")
        self._process.send_signal(number)

    def require_running(self) -> None:
        """Raise if the process ended unexpectedly. The error carries the end of its log."""
        if self._process is None:
            raise ComponentEnded(f"{self.name} is not running")
        status = self._process.poll()
        if status is None:
            return
        tail = self.log_tail()
        failure = ComponentEnded(
            f"{self.name} ended with status {status}: {tail[-1] if tail else 'no output'}"
        )
        self.annotate(failure)
        raise failure

    def annotate(self, error: ControlPlaneError) -> None:
        """Add the end of the log to an error as notes."""
        for line in self.log_tail():
            error.add_note(f"{self.name}: {line}")

    def log_tail(self) -> list[str]:
        """Return the last log lines of the current process."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(self._log_start, size - TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return [line for line in text.splitlines() if line.strip()][-TAIL_LINES:]
