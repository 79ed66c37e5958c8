"""What was asked for: the fleet, the limit, the workers; checked as a whole before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from placement.quantity import canonical_bytes, parse_bytes
from placement.types import GIB
from simulation.command_line.values import UniqueOptionsCommand, WholeNumber, not_allowed
from simulation.demo.mix import Mix, UnfitMix

NODES_MAX = 10
GPUS_MAX = 8
LIMIT_MAX = 8
MEMORY_MIN_GIB = 4
"""A worker that asks for a quarter of a GPU asks for a whole GiB."""
MEMORY_MAX_GIB = 1024


@dataclass(frozen=True)
class DemoPlan:
    """A fleet of equal nodes, the limit of seats, and who comes. `seed` chooses what a story leaves open."""

    nodes: int
    gpus: int
    gpu_memory_bytes: int
    limit: int
    seed: int
    mix: Mix

    def __str__(self) -> str:
        """The beginning of the story."""
        return (
            f"{self.mix.total} workers come to {self.nodes} nodes of {self.gpus} GPUs with {self.gpu_memory}"
        )

    @property
    def devices(self) -> int:
        """How many GPUs there are."""
        return self.nodes * self.gpus

    @property
    def gpu_memory(self) -> str:
        """The memory of a GPU as a quantity."""
        return canonical_bytes(self.gpu_memory_bytes)

    @classmethod
    def checked(
        cls, *, nodes: int, gpus: int, gpu_memory: int, limit: int, workers: int | None, seed: int
    ) -> DemoPlan:
        """A plan that makes a story. Raises `click.UsageError`."""
        try:
            mix = Mix.for_fleet(nodes=nodes, gpus=gpus, limit=limit, workers=workers)
        except UnfitMix as error:
            raise click.UsageError(str(error)) from error
        return cls(nodes, gpus, gpu_memory, limit, seed, mix)


class _Memory(click.ParamType[int]):
    """A quantity of memory that can be divided among workers, in bytes."""

    name = "quantity"
    allowed = f"a whole number of Gi from {MEMORY_MIN_GIB}Gi to {MEMORY_MAX_GIB}Gi, such as 80Gi"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes of a quantity."""
        try:
            memory_bytes = value if isinstance(value, int) else parse_bytes(value)
        except ValueError:
            memory_bytes = 0
        gib, rest = divmod(memory_bytes, GIB)
        if rest or not MEMORY_MIN_GIB <= gib <= MEMORY_MAX_GIB:
            self.fail(not_allowed(str(value), self.allowed), param, ctx)
        return memory_bytes


OPTIONS = (
    click.option(
        "--nodes", type=WholeNumber(1, NODES_MAX), default=3, show_default=True, help="Number of nodes"
    ),
    click.option(
        "--gpus", type=WholeNumber(1, GPUS_MAX), default=2, show_default=True, help="GPUs on each node"
    ),
    click.option(
        "--gpu-memory", type=_Memory(), default="80Gi", show_default=True, help="Memory of each GPU"
    ),
    click.option(
        "--limit",
        type=WholeNumber(1, LIMIT_MAX),
        default=2,
        show_default=True,
        help="The controller's --max-seats-per-claim; 0, no limit, is not shown here",
    ),
    click.option("--workers", type=WholeNumber(1), help="Number of Workloads  [default: some more than fit]"),
    click.option(
        "--seed",
        type=WholeNumber(0),
        default=0,
        show_default=True,
        help="Chooses who leaves and which node is drained",
    ),
)


def demo_command(cannot_work: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a demo's command of a function that takes `serve` and what `DemoPlan.checked` does.

    `cannot_work` says what ends it with exit status 2.
    """
    exit_status = (
        "Exit status: 0 for a demo that showed all it is to show (and for Ctrl-C under --serve), "
        f"1 for one that did not, 2 for {cannot_work}, 130 when interrupted."
    )

    def decorate(play: Callable[..., None]) -> click.Command:
        serve = click.option("--serve", is_flag=True, help="Keep everything running at the end, until Ctrl-C")
        for option in (serve, *reversed(OPTIONS)):
            play = option(play)
        return click.command(
            cls=UniqueOptionsCommand,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            epilog=exit_status,
        )(play)

    return decorate
