"""The command line: flags, shell completion and sub-commands.

click defines the flags, splits the arguments and completes them in a shell. It does not read the environment,
convert values or print. It returns unknown arguments in order. This module ignores flags of an earlier
controller and rejects the rest.

Sub-commands such as `open-rl-scheduler demo` are entry points of installed packages. The program does not
import those packages, so the production image leaves them out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import cast

import click
from click.shell_completion import CompletionItem, get_completion_class

from controller.config.flags import (
    IGNORED_FLAG_PREFIX,
    IGNORED_FLAGS,
    IGNORED_VARIABLES,
    OPTIONS,
    PROGRAM,
    InvalidSetting,
    Option,
    UsageError,
)
from controller.config.values import PATH

COMPLETE_VARIABLE = "_OPEN_RL_SCHEDULER_COMPLETE"

ENTRY_POINT_GROUP = "open_rl_scheduler.commands"
"""The entry points of sub-commands."""

Command = Callable[[Sequence[str]], int]
"""Runs a sub-command with its arguments and returns the exit status."""

_IGNORED_BOOLEAN_FLAGS = ("--zap-devel",)
"""Ignored flags that take no separate value."""


@dataclass(frozen=True)
class CommandLine:
    """A parsed command line. `flags` maps each given flag to its text."""

    flags: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    """Flags of an earlier controller."""
    help: bool = False
    version: bool = False


def parse_command_line(argv: Sequence[str]) -> CommandLine:
    """Parse the arguments after the program's name. The last value of a repeated flag wins.

    Raises:
        UsageError: an unknown flag, a flag without its value, or an unexpected argument.
    """
    try:
        context = _command().make_context(PROGRAM, list(argv))
    except click.BadOptionUsage as error:
        raise _bad_option_usage(error) from None
    given = {name: text for name, text in context.params.items() if text is not None}
    wants_help = bool(given.pop("help")) or "-h" in context.args
    wants_version = bool(given.pop("version"))
    if wants_help or wants_version:
        return CommandLine(help=wants_help, version=wants_version)
    flags = {OPTIONS[name].flag: str(text) for name, text in given.items()}
    return CommandLine(flags=flags, ignored=_ignored(context.args))


def ignored_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of an earlier controller that are set."""
    return tuple(name for name in IGNORED_VARIABLES if environ.get(name))


def complete(instruction: str) -> str:
    """Return the completion script (`<shell>_source`) or the candidates (`<shell>_complete`) for a shell.

    The shell passes the words to complete in its own variables, which click reads.

    Raises:
        UsageError: the instruction names no known shell.
    """
    shell, _, action = instruction.partition("_")
    completion_class = get_completion_class(shell)
    if completion_class is None or action not in {"source", "complete"}:
        raise InvalidSetting(COMPLETE_VARIABLE, instruction, "bash_source, zsh_source or fish_source")
    completion = completion_class(_command(), {}, PROGRAM, COMPLETE_VARIABLE)
    return completion.source() if action == "source" else completion.complete()


def _command() -> click.Command:
    options = [_click_option(name, option) for name, option in OPTIONS.items() if option.flag]
    options += [click.Option([f"--{name}"], is_flag=True) for name in ("help", "version")]
    context_settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(PROGRAM, context_settings=context_settings, params=[*options], add_help_option=False)


def _click_option(name: str, option: Option) -> click.Option:
    choices = option.value_type.choices

    def candidates(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        return [CompletionItem(choice) for choice in choices if choice.startswith(incomplete)]

    make = partial(
        click.Option,
        [option.flag, name],
        type=click.Path() if option.value_type is PATH else click.STRING,
        help=option.help,
        shell_complete=candidates if choices else None,
    )
    return make(is_flag=False, flag_value=option.value_type.bare) if option.value_type.bare else make()


def _bad_option_usage(error: click.BadOptionUsage) -> UsageError:
    for option in OPTIONS.values():
        if option.flag == error.option_name:
            return UsageError(f"{option.flag}: the value is missing: {option.value_type.allowed}")
    return UsageError(f"{error.option_name}: takes no value")


def _ignored(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the ignored flags. Raises `UsageError` for any other argument."""
    ignored: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, has_value, _ = argument.partition("=")
        if name not in IGNORED_FLAGS and not name.startswith(IGNORED_FLAG_PREFIX):
            raise _unknown(argument)
        ignored.append(name)
        takes_next = not has_value and name not in _IGNORED_BOOLEAN_FLAGS
        if takes_next and rest and not rest[0].startswith("-"):
            rest.pop(0)
    return tuple(ignored)


def _unknown(argument: str) -> UsageError:
    shown = argument.partition("=")[0] if argument.startswith("-") else argument
    shown = shown if shown.isprintable() else ascii(shown)[1:-1]
    if not argument.startswith("-"):
        for point in entry_points(group=ENTRY_POINT_GROUP, name=argument):
            if not _is_installed(point):
                package = point.module.partition(".")[0]
                return UsageError(f"{shown}: not part of this image: it needs package {package}")
        names = command_names()
        expected = f"a flag, or {' or '.join(names)} as the first word" if names else "there are only flags"
        return UsageError(f'"{shown}" is not expected: {expected}; see --help')
    known = [option.flag for option in OPTIONS.values() if option.flag] + ["--help", "--version"]
    nearest = difflib.get_close_matches(f"--{shown.lstrip('-').replace('_', '-')}", known, n=1)
    advice = f"did you mean {nearest[0]}?" if nearest else "see --help"
    return UsageError(f"unknown flag {shown}: {advice}")


def find_command(argv: Sequence[str]) -> Command | None:
    """Return the installed sub-command that the first argument names, or `None`."""
    name = argv[0] if argv else ""
    if not name or name.startswith("-"):
        return None
    points = entry_points(group=ENTRY_POINT_GROUP, name=name)
    return next((cast("Command", point.load()) for point in points if _is_installed(point)), None)


def command_names() -> list[str]:
    """Return the names of the installed sub-commands, in order."""
    return sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP) if _is_installed(point)})


def _is_installed(point: EntryPoint) -> bool:
    """Return whether the package of an entry point is installed. An image may leave it out."""
    return find_spec(point.module.partition(".")[0]) is not None
