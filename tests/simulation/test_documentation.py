"""docs/simulation.md lists every fault, coverage point and planted bug."""

from __future__ import annotations

from pathlib import Path

from simulation.checks.coverage import POINTS
from simulation.engine.fault_plan import FAULTS
from tests.simulation.plants.catalogue import PLANTS

PAGE = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()


def rows(heading: str) -> list[str]:
    """Return the rows of the table that starts with this heading."""
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    return table.splitlines()[2:]


def test_the_page_lists_every_fault_with_its_probability() -> None:
    expected = [
        f"| `{name}` | {fault.description} | {fault.probability:g} |" for name, fault in FAULTS.items()
    ]

    assert rows("| fault |") == expected


def test_the_page_lists_every_coverage_point() -> None:
    assert rows("| point |") == [f"| {name} | {meaning} |" for name, meaning in POINTS.items()]


def test_the_page_lists_every_planted_bug() -> None:
    assert [row.split("`")[1] for row in rows("| plant |")] == [plant.name for plant in PLANTS]
