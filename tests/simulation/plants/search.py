"""The search for planted bugs: how many consecutive seeds find one."""

from __future__ import annotations

from dataclasses import dataclass

from simulation.run.simulate import simulate
from tests.simulation.plants.plant import Plant

STARTS = (0, 100_000)
"""Two unrelated start seeds."""

SEEDS_MAX = 200
"""A bug must be found within this number of seeds from any start."""


@dataclass(frozen=True)
class Find:
    """The first seed that fails because of a plant."""

    seed: int
    seeds_total: int
    """The number of seeds run, including this one."""
    failure: str
    """The first violation."""


def search(plant: Plant, start: int, seeds_max: int = SEEDS_MAX) -> Find | None:
    """Run seeds from `start` until one fails with the plant and passes without it; `None` if none does."""
    for number in range(seeds_max):
        failures = simulate(start + number, around=plant.switch()).failures
        if failures and simulate(start + number).passed:
            return Find(start + number, number + 1, failures[0])
    return None
