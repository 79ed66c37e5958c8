"""The options of a demo, validated together before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from placement.quantity import canonical_bytes, parse_bytes
from placement.types import GIB
from simulation.command_line.values import UniqueOptionsCommand, WholeNumber, not_allowed
from simulation.demo.mix import Mix, UnfitMix, count_of

NODES_MAX = 10
GPUS_MAX = 8
LIMIT_MAX = 8
MEMORY_MIN_GIB = 4
"""A worker that needs a quarter of a GPU needs a whole number of GiB."""
MEMORY_MAX_GIB = 1024


@dataclass(frozen=True)
class DemoPlan:
    """A fleet of equal nodes, the seat limit, and the mix. `seed` determines random choices."""

    nodes: int
    gpus: int
    gpu_memory_bytes: int
    limit: int
    seed: int
    mix: Mix

    def __str__(self) -> str:
        """Describe the demo, for its first line."""
        node = f"{count_of(self.gpus, 'GPU')} of {self.gpu_memory} per node"
        return f"{self.mix.total} workers on {count_of(self.nodes, 'node')} ({node})"

    @property
    def devices(self) -> int:
        """The number of GPUs."""
        return self.nodes * self.gpus

    @property
    def gpu_memory(self) -> str:
        """The memory of a GPU, as a quantity."""
        return canonical_bytes(self.gpu_memory_bytes)

    @classmethod
    def checked(
        cls, *, nodes: int, gpus: int, gpu_memory: int, limit: int, workers: int | None, seed: int
    ) -> DemoPlan:
        """Validate the options and return a plan. Raises `click.UsageError`."""
        try:
            mix = Mix.for_fleet(nodes=nodes, gpus=gpus, limit=limit, workers=workers)
        except UnfitMix as error:
            raise click.UsageError(str(error)) from error
        return cls(nodes, gpus, gpu_memory, limit, seed, mix)


class _Memory(click.ParamType[int]):
    """A memory quantity in bytes that can be divided among workers."""

    name = "quantity"
    allowed = f"a whole number of Gi from {MEMORY_MIN_GIB}Gi to {MEMORY_MAX_GIB}Gi, such as 80Gi"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a quantity. Raises `click.BadParameter`."""
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
        help="The controller's --max-seats-per-claim (the demo needs a limit)",
    ),
    click.option(
        "--workers", type=WholeNumber(1), help="Number of Workloads, more than fit  [default: a few more]"
    ),
    click.option(
        "--seed",
        type=WholeNumber(0),
        default=0,
        show_default=True,
        help="Random seed: which worker is deleted and which node is drained",
    ),
)


def demo_command(usage_errors: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that adds the options of a demo to a function and makes it a command.

    `usage_errors` describes exit status 2.
    """
    exit_status = (
        "Exit status: 0 for a complete demo (and for Ctrl-C under --serve), "
        f"1 for a failed one, 2 for {usage_errors}, 130 when interrupted."
    )

    def decorate(play: Callable[..., None]) -> click.Command:
        serve = click.option("--serve", is_flag=True, help="Keep everything running until Ctrl-C")
        for option in (serve, *reversed(OPTIONS)):
            play = option(play)
        return click.command(
            cls=UniqueOptionsCommand,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            epilog=exit_status,
        )(play)

    return decorate
