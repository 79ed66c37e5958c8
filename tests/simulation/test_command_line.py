"""Shared command-line behavior: checked numbers, and one-line errors."""

from __future__ import annotations

import click
import pytest

from simulation.command_line.exit_status import FAILED, INTERRUPTED, join_names, refused, run
from simulation.command_line.values import PositiveNumber, UniqueOptionsCommand, WholeNumber


@click.command(cls=UniqueOptionsCommand)
@click.option("-n", "--number", type=WholeNumber(1, 10))
@click.option("--many", type=WholeNumber(2))
@click.option("--minutes", type=PositiveNumber(1440, example="10"))
@click.option("--name", multiple=True)
@click.option("--loud", is_flag=True)
@click.argument("WHERE", type=WholeNumber(0), required=False)
def command(**options: object) -> dict[str, object]:
    return {name: value for name, value in options.items() if value}


def given(*arguments: str) -> dict[str, object]:
    options: dict[str, object] = command.main(list(arguments), prog_name="a-test", standalone_mode=False)
    return options


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(click.ClickException) as caught:
        given(*arguments)
    assert refused(caught.value) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert output.err.count("\n") == 1
    return output.err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize("text", ["1", "10", "07"])
def test_an_integer_in_its_range_is_accepted(text: str) -> None:
    assert given("--number", text) == {"number": int(text)}


@pytest.mark.parametrize(
    ("text", "displayed"),
    [
        ("abc", "'abc'"),
        ("", "''"),
        ("0", "0"),
        ("11", "11"),
        ("-1", "-1"),
        ("1.5", "1.5"),
        ("1_0", "'1_0'"),
        (" 3", "' 3'"),
        ("٣", "'٣'"),
        ("3\n", r"'3\n'"),
        ("nan", "'nan'"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_an_invalid_integer_is_rejected_with_the_allowed_range(
    text: str, displayed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = complaint(capsys, "--number", text)
    assert message == f"--number: {displayed} is not allowed: a whole number from 1 to 10"


def test_an_open_range_names_its_minimum(capsys: pytest.CaptureFixture[str]) -> None:
    assert given("--many", str(10**30)) == {"many": 10**30}
    assert complaint(capsys, "--many=1") == "--many: 1 is not allowed: a whole number, at least 2"


@pytest.mark.parametrize("text", ["0.5", "10", ".5", "2.", "1e3", "1440"])
def test_a_positive_number_is_accepted(text: str) -> None:
    assert given("--minutes", text) == {"minutes": float(text)}


@pytest.mark.parametrize(
    ("text", "displayed"),
    [
        ("x", "'x'"),
        ("0", "0"),
        ("-0.5", "-0.5"),
        ("nan", "'nan'"),
        ("inf", "'inf'"),
        ("-inf", "'-inf'"),
        ("Infinity", "'Infinity'"),
        ("1e999", "1e999"),
        ("1e308", "1e308"),
        ("1440.5", "1440.5"),
        ("1_0", "'1_0'"),
    ],
)
def test_a_number_outside_its_range_is_rejected(
    text: str, displayed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = complaint(capsys, "--minutes", text)
    assert message == f"--minutes: {displayed} is not allowed: a number above 0, up to 1440, such as 10"


def test_the_help_shows_ranges() -> None:
    output = " ".join(command.get_help(click.Context(command)).split())
    assert "--number N [1<=x<=10]" in output
    assert "--many N [x>=2]" in output
    assert "--minutes NUMBER [0<x<=1440]" in output


def test_an_argument_error_uses_the_name_from_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(capsys, "up") == "WHERE: 'up' is not allowed: a whole number, at least 0"


def test_a_repeated_option_is_rejected_unless_it_is_repeatable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = complaint(capsys, "-n", "3", "--number", "3")
    assert message == "--number: given more than once"
    assert given("--name=a", "--name=b", "--loud", "--loud") == {"name": ("a", "b"), "loud": True}


def test_an_unknown_command_error_lists_the_known_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    group = click.Group(
        "tool", commands=[click.Command("up"), click.Command("clean"), click.Command("build")]
    )
    with pytest.raises(click.ClickException) as caught:
        group.main(["cleen"], standalone_mode=False)

    assert refused(caught.value) == 2
    assert capsys.readouterr().err == "error: No such command 'cleen': build, clean or up\n"


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_names_are_joined_for_a_sentence(names: list[str], text: str) -> None:
    assert join_names(names) == text


class Unmeasurable(Exception):
    """An expected error."""


class ToolMissing(Unmeasurable):
    """An expected error with its own exit status."""

    exit_status = 2


def ending_of(error: BaseException) -> int:
    """Return the exit status of a command that raises `error`."""

    @click.command
    def failing() -> None:
        raise error

    return run(failing, [], program="a-test", expected=(Unmeasurable,), interrupted="undone")


def test_the_return_value_of_a_command_is_its_exit_status() -> None:
    assert run(click.Command("good", callback=lambda: 1), [], program="a-test") == 1
    assert run(click.Command("good", callback=lambda: None), [], program="a-test") == 0


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (Unmeasurable("no\nfigures"), FAILED, "error: no figures\n"),
        (ToolMissing("no go"), 2, "error: no go\n"),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [ToolMissing("no go")])]), 2, "error: no go\n"),
        (click.UsageError("say more"), 2, "error: say more\n"),
        (click.Abort(), INTERRUPTED, "error: undone\n"),
        (KeyboardInterrupt(), INTERRUPTED, "error: undone\n"),
    ],
)
def test_an_expected_error_is_one_line_and_an_exit_status(
    capsys: pytest.CaptureFixture[str], error: BaseException, status: int, message: str
) -> None:
    assert ending_of(error) == status
    assert capsys.readouterr().err.removeprefix("\n") == message  # click ends the line of a ^C itself


def test_the_notes_of_an_error_precede_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = Unmeasurable("it ended")
    error.add_note("its last words")
    assert ending_of(error) == FAILED
    assert capsys.readouterr().err == "its last words\nerror: it ended\n"


@pytest.mark.parametrize(
    "error",
    [
        LookupError("a bug"),
        ExceptionGroup("tasks", [LookupError("a bug")]),
        ExceptionGroup("tasks", [Unmeasurable("no figures"), LookupError("a bug")]),
    ],
)
def test_an_unexpected_error_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        ending_of(error)
    assert caught.value is error


def test_a_command_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    tool = click.Group("tool", commands=[click.Command("up", help="Start it")])
    assert run(tool, [], program="a-test") == 2
    assert "Start it" in capsys.readouterr().err
