"""The processes that are compared, each with the rights that the project ships for the controller.

One runs at a time, fresh for each round. An error that it logs fails the round: a figure of a contender
that was refused or crashed says nothing.
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

# The shipped retry interval, unlike in the tests; probes and lease only where a scenario asks for them.
CONTROLLER_FLAGS: Final[Flags] = {**DEFAULT_FLAGS, "--retry-interval": "10s"}


class ContenderInfo(Enum):
    """What a contender is, in words for a table."""

    CONTROLLER = "controller"
    BARE_WRITER = "bare writer"


@dataclass(frozen=True)
class Contender:
    """A program and how much it does at once."""

    kind: ContenderInfo
    workers: int

    def __str__(self) -> str:
        return f"{self.kind.value}, {self.workers}"

    @property
    def ready_text(self) -> str:
        """What its log says when it is ready."""
        return READY if self.kind is ContenderInfo.BARE_WRITER else "Started reconciling"

    def command(self, kubeconfig: Path, flags: Flags) -> list[str]:
        """Its command line, behind the interpreter's own."""
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
    """A contender at work."""

    def __init__(self, contender: Contender, process: subprocess.Popen[bytes], log: Path) -> None:
        self.contender = contender
        self._process = process
        self._log = log

    def __repr__(self) -> str:
        return f"<ContenderProcess {self.contender} pid={self._process.pid}>"

    def cpu_seconds(self) -> float:
        """CPU time used so far."""
        return procfs.cpu_seconds(self._process.pid)

    def cpu_wait_seconds(self) -> float:
        """Time so far in which it was ready and had no processor."""
        return procfs.cpu_wait_seconds(self._process.pid)

    def rss_peak_bytes(self) -> int:
        """The largest resident set so far."""
        return procfs.rss_peak_bytes(self._process.pid)

    def check(self) -> None:
        """Raises `ContenderFailed` if it ended or logged an error."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        faults = [line for line in lines if '"level":"error"' in line or "Traceback" in line]
        status = self._process.poll()
        if status is None and not faults:
            return
        error = ContenderFailed(f"{self.contender}: {faults[0] if faults else f'ended with status {status}'}")
        for line in lines[-LOG_TAIL_LINES:]:
            error.add_note(line)
        raise error

    async def until_ready(self) -> None:
        """Return once its log says so."""
        with anyio.move_on_after(START_SECONDS):
            while self.contender.ready_text not in self._log.read_text(encoding="utf-8"):
                self.check()
                await anyio.sleep(POLL_SECONDS)
            return
        raise ContenderFailed(f"{self.contender}: not ready within {START_SECONDS} s")

    async def stop(self) -> None:
        """End it; politely first, so that a profile is written."""
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
    """Run a contender while the block runs; `profile` is where cProfile writes the controller's.

    Raises `ContenderFailed`, also at the end if it logged an error meanwhile.
    """
    profiled = profile is not None and contender.kind is ContenderInfo.CONTROLLER
    interpreter = ["-m", "cProfile", "-o", str(profile)] if profiled else []
    process = _spawn([*interpreter, *contender.command(cluster.controller_kubeconfig, flags)], log)
    contestant = ContenderProcess(contender, process, log)
    try:
        await contestant.until_ready()
        yield contestant
        contestant.check()
    except NeverHappened:
        contestant.check()  # the likelier cause
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await contestant.stop()


def _spawn(arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPEN_RL_")}
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, *arguments], stdout=output, stderr=output, env=environment)
