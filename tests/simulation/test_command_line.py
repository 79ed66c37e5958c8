"""What command lines have in common: numbers that are checked, and errors that are one line."""

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
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize("text", ["1", "10", "07"])
def test_a_whole_number_in_its_range_is_taken(text: str) -> None:
    assert given("--number", text) == {"number": int(text)}


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_what_is_no_whole_number_in_the_range_is_named_with_what_is_allowed(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = complaint(capsys, "--number", text)
    assert said == f"--number: {shown} is not allowed: a whole number from 1 to 10"


def test_a_range_without_an_end_says_where_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert given("--many", str(10**30)) == {"many": 10**30}
    assert complaint(capsys, "--many=1") == "--many: 1 is not allowed: a whole number, at least 2"


@pytest.mark.parametrize("text", ["0.5", "10", ".5", "2.", "1e3", "1440"])
def test_a_positive_number_is_taken(text: str) -> None:
    assert given("--minutes", text) == {"minutes": float(text)}


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_what_is_no_number_above_0_up_to_the_most_is_refused(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = complaint(capsys, "--minutes", text)
    assert said == f"--minutes: {shown} is not allowed: a number above 0, up to 1440, such as 10"


def test_ranges_are_in_the_help() -> None:
    shown = " ".join(command.get_help(click.Context(command)).split())
    assert "--number N [1<=x<=10]" in shown
    assert "--many N [x>=2]" in shown
    assert "--minutes NUMBER [0<x<=1440]" in shown


def test_an_argument_is_named_as_in_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(capsys, "up") == "WHERE: 'up' is not allowed: a whole number, at least 0"


def test_an_option_that_is_said_twice_is_refused_unless_that_means_something(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = complaint(capsys, "-n", "3", "--number", "3")
    assert said == "--number: given more than once"
    assert given("--name=a", "--name=b", "--loud", "--loud") == {"name": ("a", "b"), "loud": True}


def test_a_command_that_does_not_exist_is_followed_by_those_that_do(
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
def test_names_for_a_sentence(names: list[str], text: str) -> None:
    assert join_names(names) == text


class Unmeasurable(Exception):
    """An error that a command line expects."""


class ToolMissing(Unmeasurable):
    """One with a status of its own."""

    exit_status = 2


def ending_of(error: BaseException) -> int:
    """How a command ends that raises `error`."""

    @click.command
    def failing() -> None:
        raise error

    return run(failing, [], program="a-test", expected=(Unmeasurable,), interrupted="undone")


def test_a_command_that_ends_well_has_the_status_that_it_returns() -> None:
    assert run(click.Command("good", callback=lambda: 1), [], program="a-test") == 1
    assert run(click.Command("good", callback=lambda: None), [], program="a-test") == 0


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (Unmeasurable("no\nfigures"), FAILED, "error: no figures\n"),
        (ToolMissing("no go"), 2, "error: no go\n"),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [ToolMissing("no go")])]), 2, "error: no go\n"),
        (click.UsageError("say more"), 2, "error: say more\n"),
        (click.Abort(), INTERRUPTED, "error: undone\n"),
        (KeyboardInterrupt(), INTERRUPTED, "error: undone\n"),
    ],
)
def test_an_expected_error_is_one_line_and_a_status(
    capsys: pytest.CaptureFixture[str], error: BaseException, status: int, said: str
) -> None:
    assert ending_of(error) == status
    assert capsys.readouterr().err.removeprefix("\n") == said  # click ends the line of a ^C itself


def test_the_notes_of_an_error_stand_above_its_line(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_an_error_that_nobody_expects_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        ending_of(error)
    assert caught.value is error


def test_a_group_of_commands_without_one_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    tool = click.Group("tool", commands=[click.Command("up", help="Start it")])
    assert run(tool, [], program="a-test") == 2
    assert "Start it" in capsys.readouterr().err
