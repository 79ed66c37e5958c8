"""Search for planted bugs and print the number of seeds: `python -m tests.simulation.plants [NAME ...]`.

The output has one line per plant and start seed. Use it to pin seeds in `catalogue` and for the table in
docs/simulation.md. Exit status: 0 if each plant was found, 1 if one was not, 2 for invalid usage, 130 when
interrupted.
"""

from __future__ import annotations

import click

from simulation.command_line.exit_status import run_and_exit
from tests.simulation.plants.catalogue import PLANTS
from tests.simulation.plants.plant import Plant
from tests.simulation.plants.search import SEEDS_MAX, STARTS, search


def _known_plants(
    _context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]
) -> list[Plant]:
    known = {plant.name: plant for plant in PLANTS}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"unknown plant {name!r}; the plants are {', '.join(known)}")
    return [plant for plant in PLANTS if plant.name in names or not names]


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 if each plant was found; 1 if one was not; 2 for invalid usage; "
    "130 when interrupted.",
)
@click.argument("name", nargs=-1, callback=_known_plants)
@click.pass_context
def cli(context: click.Context, name: list[Plant]) -> None:
    """Print the number of seeds that find each planted bug: all bugs, or those named."""
    missed = 0
    for plant in name:
        for start in STARTS:
            find = search(plant, start)
            missed += find is None
            result = f"{find.seeds_total}\t{find.failure}" if find else f"not found in {SEEDS_MAX}"
            click.echo(f"{plant.name}\t{start}\t{result}")
    context.exit(1 if missed else 0)


if __name__ == "__main__":
    run_and_exit(cli, program="python -m tests.simulation.plants")
