"""Sub-commands are found among what is installed, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.config.command_line import GROUP, command_names, find_command

COMMANDS = """
def hello(arguments):
    return len(arguments)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with two commands, the package of one of which is missing."""
    metadata = tmp_path / "greetings-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    points = f"[{GROUP}]\nhello = greetings_of_a_test:hello\nbye = package_that_was_left_out.cli:bye\n"
    (metadata / "entry_points.txt").write_text(points)
    (tmp_path / "greetings_of_a_test.py").write_text(COMMANDS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("installed")
def test_a_command_is_found_by_its_name() -> None:
    command = find_command(["hello", "--loud"])

    assert command is not None
    assert command(["--loud"]) == 1


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("argv", [[], ["--hello"], ["hullo"], ["--", "hello"], [""], ["bye"]])
def test_nothing_else_is_a_command(argv: list[str]) -> None:
    assert find_command(argv) is None


@pytest.mark.usefixtures("installed")
def test_the_commands_that_are_there_can_be_named() -> None:
    names = command_names()

    assert "hello" in names
    assert "bye" not in names, "its package was left out"
