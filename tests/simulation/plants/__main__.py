"""Search for planted bugs and print what it took: `python -m tests.simulation.plants [NAME ...]`.

One line for each plant and start, to pin seeds in `catalogue` and for the table in docs/simulation.md.
"""

from __future__ import annotations

import sys

from tests.simulation.plants.catalogue import PLANTS
from tests.simulation.plants.search import SEEDS_MAX, STARTS, search


def main() -> int:
    wanted = sys.argv[1:]
    missed = 0
    for plant in PLANTS:
        if wanted and plant.name not in wanted:
            continue
        for start in STARTS:
            find = search(plant, start)
            missed += find is None
            told = f"{find.seeds_total}\t{find.failure}" if find else f"not found in {SEEDS_MAX}"
            print(f"{plant.name}\t{start}\t{told}", flush=True)  # noqa: T201 - a command's output
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
