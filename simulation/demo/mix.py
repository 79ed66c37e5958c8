"""The Workloads of the demo: a mix that books every seat of the fleet, and more.

Exclusive workers are created first and get whole GPUs. Shared workers then fill all remaining seats. The late
workers include at least one of each kind that must wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Self

from placement.quantity import whole_gib
from simulation.apiserver.documents import Document
from simulation.cluster.workloads import workload

WORKERS_MAX = 100
PAIR_DEVICES_MIN = 4
"""The minimum number of GPUs for a mix in which one worker gets two of them."""
RUN_LISTED_MAX = 2
"""Longer runs of consecutive names are abbreviated."""
LATE_SHARERS = 2
TEAMS = ("team-a", "team-b", "team-c")


class WorkerShape(Enum):
    """The kind of a worker. The value is the prefix of its name."""

    FFT = "fft"
    LORA = "lora"
    PAIR = "pair"


class UnfitMix(Exception):
    """The fleet and the number of workers do not make a demo. The message names the options to change."""


@dataclass(frozen=True)
class Mix:
    """Names of Workloads, grouped by the step that creates them."""

    exclusive: tuple[str, ...]
    """Exclusive workers, created while the fleet is empty."""
    shared: tuple[str, ...]
    """As many workers as the remaining GPUs have seats."""
    late: tuple[str, ...]
    """Workers that find no free capacity, of every kind."""

    @classmethod
    def for_fleet(cls, *, nodes: int, gpus: int, limit: int, workers: int | None = None) -> Self:
        """Fill `nodes` nodes of `gpus` GPUs at `limit` workers per GPU. Extra `workers` are late ones.

        Raises:
            UnfitMix: Too few workers to overfill the fleet, or too many to display.
        """
        devices = nodes * gpus
        pair_fits = gpus > 1
        exclusive = [_name(WorkerShape.PAIR, 1)] if pair_fits and devices >= PAIR_DEVICES_MIN else []
        free = devices - 2 * len(exclusive)
        if free > 1:
            exclusive.append(_name(WorkerShape.LORA, 1))
            free -= 1
        seats = free * limit
        late = [_name(WorkerShape.LORA, 2)] + ([_name(WorkerShape.PAIR, 2)] if pair_fits else [])
        least = len(exclusive) + seats + len(late) + 1
        if least > WORKERS_MAX:
            raise UnfitMix(
                f"--nodes {nodes}, --gpus {gpus}, --limit {limit} need at least {least} workers, "
                f"but the demo shows at most {WORKERS_MAX}; lower one of them"
            )
        usual = min(least - 1 + LATE_SHARERS, WORKERS_MAX)
        if workers is not None and not least <= workers <= WORKERS_MAX:
            fleet = f"{count_of(nodes, 'node')} of {count_of(gpus, 'GPU')}"
            allowed = f"{least} to {WORKERS_MAX} for {fleet} at limit {limit}"
            raise UnfitMix(f"--workers: {workers} is not allowed: {allowed}")
        sharers = 1 + (usual if workers is None else workers) - least
        late_sharing = [_name(WorkerShape.FFT, seats + n) for n in range(1, sharers + 1)]
        return cls(
            tuple(exclusive),
            tuple(_name(WorkerShape.FFT, n) for n in range(1, seats + 1)),
            (*late_sharing, *late),
        )

    @property
    def total(self) -> int:
        """The number of workers."""
        return len(self.exclusive) + len(self.shared) + len(self.late)


def kind_of(name: str) -> WorkerShape:
    """Return the kind of a worker of the mix."""
    return WorkerShape(name.partition("-")[0])


def manifest(name: str, *, gpu_memory_bytes: int) -> Document:
    """Return the manifest of a Workload. LoRA needs a quarter of a GPU's memory, others three quarters."""
    kind = kind_of(name)
    number = int(name.partition("-")[2])
    owner = TEAMS[number % len(TEAMS)]
    quarters = 1 if kind is WorkerShape.LORA else 3
    memory = whole_gib(gpu_memory_bytes * quarters // 4)
    if kind is WorkerShape.FFT:
        return workload(name, memory=memory, ownerID=owner)
    if kind is WorkerShape.LORA:
        return workload(name, memory=memory, shared=False, ownerID=owner)
    return workload(name, memory=memory, shared=False, devices=2, trainingKind="fft", ownerID=owner)


def abbreviate_names(names: Sequence[str]) -> str:
    """Join names for a sentence and abbreviate consecutive ones: `fft-1 to fft-6, lora-1`."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > RUN_LISTED_MAX else ", ".join(run) for run in runs
    )


def _name(kind: WorkerShape, number: int) -> str:
    return f"{kind.value}-{number}"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, which is plural unless the number is 1."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _follows(name: str, successor: str) -> bool:
    kind, _, number = name.partition("-")
    return successor == f"{kind}-{int(number) + 1}"
