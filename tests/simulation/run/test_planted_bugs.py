"""The simulation finds planted bugs: each one in a pinned seed, and within 200 seeds of any start.

A passing simulation proves nothing unless a bug would have made it fail. If a change of the simulation or
of the production code moves the seeds, `python -m tests.simulation.plants NAME` finds new ones to pin.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from simulation.run.simulate import simulate
from tests.simulation.plants.catalogue import PLANTS
from tests.simulation.plants.plant import Plant
from tests.simulation.plants.search import SEEDS_MAX, STARTS, search


@cache
def failures_without_plants(seed: int) -> tuple[str, ...]:
    return simulate(seed).failures


@pytest.mark.timeout(300)  # a run that never comes to rest takes longest
@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_a_planted_bug_is_found_by_its_pinned_seed(plant: Plant) -> None:
    assert failures_without_plants(plant.seed) == (), "the seed fails without the plant"
    failures = simulate(plant.seed, around=plant.switch()).failures
    assert any(re.search(plant.failure_pattern, failure) for failure in failures), failures


def test_a_plant_is_removed_after_the_run() -> None:
    plant = PLANTS[0]
    before = simulate(plant.seed).digest
    simulate(plant.seed, around=plant.switch())
    assert simulate(plant.seed).digest == before


def test_plants_are_numerous_and_have_unique_names() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 12


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_a_planted_bug_is_found_from_every_start(plant: Plant, start: int) -> None:
    assert search(plant, start) is not None, f"{plant} is not found by {SEEDS_MAX} seeds from {start} on"
