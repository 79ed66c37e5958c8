"""Batches: many seeds on all cores, each run twice in two processes with different hash seeds.

The worker processes (`simulation.run.worker`) are reused; half of them use one hash seed, the other half
another. Both halves get the seeds in chunks; one half runs each chunk in reverse. A run that depends on
earlier runs in its process therefore has a different digest.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import islice
from typing import Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from simulation.run.simulate import RunOutcome

CHUNK = 8
RUN_SECONDS_MAX = 180.0
"""A run that takes longer counts as hanging."""

HASH_SEEDS = ("1", "2")
LINE_MAX = 50_000_000


class WorkerFailed(Exception):
    """A worker process ended during a run, or hangs."""


class Worker:
    """One worker process, started by `async with`."""

    def __init__(self, hash_seed: str) -> None:
        self._hash_seed = hash_seed
        self._process: Process | None = None

    def __repr__(self) -> str:
        return f"<Worker hash_seed={self._hash_seed} running={self._process is not None}>"

    async def __aenter__(self) -> Self:
        command = [sys.executable, "-m", "simulation.run.worker"]
        environment = {**os.environ, "PYTHONHASHSEED": self._hash_seed}
        self._process = await anyio.open_process(command, env=environment, stderr=None)
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._process is not None:
            with anyio.CancelScope(shield=True):
                if self._process.returncode is None:
                    self._process.kill()
                await self._process.aclose()

    async def run(self, seed: int, without: Collection[str]) -> RunOutcome:
        """Run one seed. Raises `WorkerFailed`."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise WorkerFailed("the worker was not started")
        job = json.dumps({"seed": seed, "without": list(without)})
        try:
            await process.stdin.send(f"{job}\n".encode())
            with anyio.fail_after(RUN_SECONDS_MAX):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", LINE_MAX)
        except TimeoutError as error:
            raise WorkerFailed(f"seed {seed} hangs: no end after {RUN_SECONDS_MAX:g} s") from error
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError) as error:
            raise WorkerFailed(f"the process that ran seed {seed} ended") from error
        outcome: RunOutcome = pickle.loads(base64.b64decode(line))  # noqa: S301 - from our own child
        return outcome


class Batch:
    """Runs seeds, and calls `report` when both runs of a seed have ended."""

    def __init__(
        self,
        seeds: Iterator[int],
        *,
        without: Collection[str],
        jobs: int,
        report: Callable[[RunOutcome], None],
    ) -> None:
        self._seeds = seeds
        self._without = tuple(without)
        self._jobs = jobs
        self._report = report
        self._first: dict[int, RunOutcome] = {}
        self._queues: tuple[list[int], list[int]] = ([], [])

    def __repr__(self) -> str:
        return f"<Batch jobs={self._jobs} half_run={len(self._first)}>"

    async def run(self) -> None:
        """Run all seeds of the iterator. Raises `WorkerFailed`."""
        async with anyio.create_task_group() as tasks:
            for number in range(max(2, self._jobs)):
                tasks.start_soon(self._work, number % 2)

    async def _work(self, half: int) -> None:
        async with Worker(HASH_SEEDS[half]) as worker:
            while (seed := self._next(half)) is not None:
                self._add(await worker.run(seed, self._without))

    def _next(self, half: int) -> int | None:
        if not self._queues[half]:
            chunk = list(islice(self._seeds, CHUNK))
            self._queues[0].extend(chunk)
            self._queues[1].extend(reversed(chunk))
        return self._queues[half].pop(0) if self._queues[half] else None

    def _add(self, outcome: RunOutcome) -> None:
        first = self._first.pop(outcome.seed, None)
        if first is None:
            self._first[outcome.seed] = outcome
            return
        if first.digest != outcome.digest:
            text = f"the run is not deterministic: digests {first.digest} and {outcome.digest}"
            outcome = replace(outcome, failures=(*outcome.failures, text))
        self._report(outcome)
