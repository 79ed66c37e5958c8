"""The processes that are compared, each with the permissions that the project ships for the controller.

One process runs at a time, and each round starts a new one. An error in its log fails the round: the figures
of a process that was refused or crashed are meaningless.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from bench import procfs
from bench.baseline import READY
from bench.errors import ContenderFailed, NeverHappened
from e2e.controlplane import Cluster
from e2e.harness.program import DEFAULT_FLAGS, PROGRAM

START_SECONDS = 60
STOP_SECONDS = 30
POLL_SECONDS = 0.05
LOG_TAIL_LINES = 5

Flags = Mapping[str, str]

# Unlike the tests, the benchmarks use the default retry interval. Only some scenarios enable the lease.
CONTROLLER_FLAGS: Final[Flags] = {**DEFAULT_FLAGS, "--retry-interval": "10s"}


class ContenderInfo(Enum):
    """The kind of a contender, as named in tables."""

    CONTROLLER = "controller"
    BARE_WRITER = "bare writer"


@dataclass(frozen=True)
class Contender:
    """A program and its concurrency."""

    kind: ContenderInfo
    workers: int

    def __str__(self) -> str:
        return f"{self.kind.value}, {self.workers}"

    @property
    def ready_text(self) -> str:
        """The log message of a ready contender."""
        return READY if self.kind is ContenderInfo.BARE_WRITER else "Started reconciling"

    def command(self, kubeconfig: Path, flags: Flags) -> list[str]:
        """Return its command line, without the interpreter."""
        if self.kind is ContenderInfo.BARE_WRITER:
            return ["-m", "bench.baseline", str(kubeconfig), str(self.workers)]
        settings = {
            **CONTROLLER_FLAGS,
            "--kubeconfig": str(kubeconfig),
            "--max-concurrent-reconciles": str(self.workers),
            **flags,
        }
        return [str(PROGRAM), *(f"{name}={value}" for name, value in settings.items())]


class ContenderProcess:
    """A running contender."""

    def __init__(self, contender: Contender, process: subprocess.Popen[bytes], log: Path) -> None:
        self.contender = contender
        self._process = process
        self._log = log

    def __repr__(self) -> str:
        return f"<ContenderProcess {self.contender} pid={self._process.pid}>"

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far."""
        return procfs.cpu_seconds(self._process.pid)

    def cpu_wait_seconds(self) -> float:
        """Return the time so far that it was runnable without a CPU."""
        return procfs.cpu_wait_seconds(self._process.pid)

    def rss_peak_bytes(self) -> int:
        """Return the peak resident set so far."""
        return procfs.rss_peak_bytes(self._process.pid)

    def check(self) -> None:
        """Raise `ContenderFailed` if it ended or logged an error."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        errors = [line for line in lines if '"level":"error"' in line or "Traceback" in line]
        status = self._process.poll()
        if status is None and not errors:
            return
        error = ContenderFailed(f"{self.contender}: {errors[0] if errors else f'ended with status {status}'}")
        for line in lines[-LOG_TAIL_LINES:]:
            error.add_note(line)
        raise error

    async def until_ready(self) -> None:
        """Wait until its log reports that it is ready."""
        with anyio.move_on_after(START_SECONDS):
            while self.contender.ready_text not in self._log.read_text(encoding="utf-8"):
                self.check()
                await anyio.sleep(POLL_SECONDS)
            return
        raise ContenderFailed(f"{self.contender}: not ready within {START_SECONDS} s")

    async def stop(self) -> None:
        """Terminate the process, so that it can write its profile. Kill it after a timeout."""
        self._process.terminate()
        try:
            await to_thread.run_sync(self._process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await to_thread.run_sync(self._process.wait)


@asynccontextmanager
async def running(
    contender: Contender, cluster: Cluster, log: Path, flags: Flags, profile: Path | None = None
) -> AsyncIterator[ContenderProcess]:
    """Run a contender during the block. `profile` is the cProfile output file of the controller.

    Raises `ContenderFailed`, also at the end of the block if the contender logged an error.
    """
    profiled = profile is not None and contender.kind is ContenderInfo.CONTROLLER
    interpreter = ["-m", "cProfile", "-o", str(profile)] if profiled else []
    process = _spawn([*interpreter, *contender.command(cluster.controller_kubeconfig, flags)], log)
    running_contender = ContenderProcess(contender, process, log)
    try:
        await running_contender.until_ready()
        yield running_contender
        running_contender.check()
    except NeverHappened:
        running_contender.check()  # An error of the contender is the more likely cause.
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await running_contender.stop()


def _spawn(arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPEN_RL_")}
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, *arguments], stdout=output, stderr=output, env=environment)
