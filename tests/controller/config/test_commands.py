"""Tests of sub-commands: entry points of installed packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.config.flag_parsing import (
    ENTRY_POINT_GROUP,
    command_names,
    find_command,
    parse_command_line,
)
from controller.config.flags import UsageError

COMMANDS = """
def hello(arguments):
    return len(arguments)
"""
POINTS = f"""
[{ENTRY_POINT_GROUP}]
hello = greetings_of_a_test:hello
bye = package_that_was_left_out.cli:bye
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with two sub-commands. The package of `bye` is missing."""
    metadata = tmp_path / "greetings-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    (tmp_path / "greetings_of_a_test.py").write_text(COMMANDS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("installed")
def test_a_sub_command_is_found_by_its_name() -> None:
    command = find_command(["hello", "--loud"])

    assert command is not None
    assert command(["--loud"]) == 1


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("argv", [[], ["--hello"], ["hullo"], ["--", "hello"], [""], ["bye"]])
def test_other_arguments_are_not_sub_commands(argv: list[str]) -> None:
    assert find_command(argv) is None


@pytest.mark.usefixtures("installed")
def test_only_installed_sub_commands_are_listed() -> None:
    names = command_names()

    assert "hello" in names
    assert "bye" not in names, "its package is missing"


@pytest.mark.usefixtures("installed")
def test_a_sub_command_without_its_package_is_not_part_of_the_image() -> None:
    with pytest.raises(UsageError) as caught:
        parse_command_line(["bye", "--loud"])

    assert str(caught.value) == "bye: not part of this image: it needs package package_that_was_left_out"
