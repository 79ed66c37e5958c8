"""How many consecutive seeds it takes to find a planted bug."""

from __future__ import annotations

from dataclasses import dataclass

from simulation.run.simulate import simulate
from tests.simulation.plants.plant import Plant

STARTS = (0, 100_000)
"""Two places among the seeds that have nothing to do with each other."""

SEEDS_MAX = 200
"""A bug has to be found within so many, wherever one starts."""


@dataclass(frozen=True)
class Find:
    """The first seed that fails because of a plant."""

    seed: int
    seeds_total: int
    """Seeds that were run, this one included."""
    failure: str
    """The first thing that was wrong."""


def search(plant: Plant, start: int, seeds_max: int = SEEDS_MAX) -> Find | None:
    """Run seeds from `start` on until one fails with the plant and passes without it; `None`: none does."""
    for number in range(seeds_max):
        failures = simulate(start + number, around=plant.switch()).failures
        if failures and simulate(start + number).passed:
            return Find(start + number, number + 1, failures[0])
    return None
