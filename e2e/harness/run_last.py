"""A pytest plugin that runs one module last, and a fixture that shows whether all others ran."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
LAST = "test_rights.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the module to the end."""
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture
def full_run(request: pytest.FixtureRequest) -> bool:
    """Whether the whole folder was selected, except for long tests, and nothing failed."""
    option = vars(request.config.option)
    chosen = any(option.get(name) for name in ("keyword", "deselect", "lf", "failedfirst"))
    paths = {Path(argument).absolute() for argument in request.config.args}
    whole = paths == {HERE} and option["markexpr"] == "not long" and not chosen
    return whole and not request.session.testsfailed
