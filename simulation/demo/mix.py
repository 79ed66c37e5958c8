"""Who is submitted, in which order: a mix that fills the fleet to the last seat and then overfills it.

The order is the story's: workers that never share come first and take whole GPUs, sharing workers fill every
seat that is left, and of those that come late one of each kind has to wait.
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
WITH_A_PAIR = 4
"""So many GPUs leave enough to others where two go to one worker."""
NAMED_ALONE = 2
"""Longer runs of names are drawn together."""
LATE_SHARERS = 2
TEAMS = ("team-a", "team-b", "team-c")


class WorkerShape(Enum):
    """What a worker asks for; the value begins its name."""

    FFT = "fft"
    LORA = "lora"
    PAIR = "pair"


class UnfitMix(Exception):
    """The fleet and the number of workers do not make a story. Its text names the options to change."""


@dataclass(frozen=True)
class Mix:
    """Names of Workloads by the time they come."""

    alone: tuple[str, ...]
    """Exclusive workers, who come while the fleet is empty."""
    sharing: tuple[str, ...]
    """As many as there are seats on the GPUs that are left."""
    late: tuple[str, ...]
    """Those for whom nothing is left, of every kind."""

    @classmethod
    def for_fleet(cls, *, nodes: int, gpus: int, limit: int, workers: int | None = None) -> Self:
        """Fill `nodes` nodes of `gpus` GPUs at `limit` workers to a GPU. More `workers` are late sharers.

        Raises:
            UnfitMix: too few workers to overfill the fleet, or too many to watch.
        """
        devices = nodes * gpus
        pair_fits = gpus > 1
        alone = [_name(WorkerShape.PAIR, 1)] if pair_fits and devices >= WITH_A_PAIR else []
        free = devices - 2 * len(alone)
        if free > 1:
            alone.append(_name(WorkerShape.LORA, 1))
            free -= 1
        seats = free * limit
        late = [_name(WorkerShape.LORA, 2)] + ([_name(WorkerShape.PAIR, 2)] if pair_fits else [])
        least = len(alone) + seats + len(late) + 1
        if least > WORKERS_MAX:
            raise UnfitMix(
                f"--nodes {nodes}, --gpus {gpus}, --limit {limit} need at least {least} workers: "
                f"at most {WORKERS_MAX} are shown; lower one of them"
            )
        usual = min(least - 1 + LATE_SHARERS, WORKERS_MAX)
        if workers is not None and not least <= workers <= WORKERS_MAX:
            fleet = f"{_counted(nodes, 'node')} of {_counted(gpus, 'GPU')}"
            allowed = f"{least} to {WORKERS_MAX} for {fleet} at limit {limit}"
            raise UnfitMix(f"--workers: {workers} is not allowed: {allowed}")
        sharers = 1 + (usual if workers is None else workers) - least
        late_sharing = [_name(WorkerShape.FFT, seats + n) for n in range(1, sharers + 1)]
        return cls(
            tuple(alone),
            tuple(_name(WorkerShape.FFT, n) for n in range(1, seats + 1)),
            (*late_sharing, *late),
        )

    @property
    def total(self) -> int:
        """How many workers there are."""
        return len(self.alone) + len(self.sharing) + len(self.late)


def kind_of(name: str) -> WorkerShape:
    """The kind of a worker of the mix."""
    return WorkerShape(name.partition("-")[0])


def manifest(name: str, *, gpu_memory_bytes: int) -> Document:
    """The Workload of that name: LoRA asks for a quarter of a GPU's memory, the others for three quarters."""
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


def listed(names: Sequence[str]) -> str:
    """Names for a sentence: runs of numbers are drawn together, such as `fft-1 to fft-6, lora-1`."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > NAMED_ALONE else ", ".join(run) for run in runs)


def _name(kind: WorkerShape, number: int) -> str:
    return f"{kind.value}-{number}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _follows(name: str, successor: str) -> bool:
    kind, _, number = name.partition("-")
    return successor == f"{kind}-{int(number) + 1}"
