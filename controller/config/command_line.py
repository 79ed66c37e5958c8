"""What was asked for: the command line parsed, before anything is started.

click knows the flags (made from the table of settings), splits the arguments and completes them in a shell;
it reads no environment variable, converts no value and prints nothing. Arguments that it does not know come
back in order and are judged here: flags of an earlier controller are put aside, the rest is refused.

Sub-commands that other packages bring along, such as `open-rl-scheduler demo`.

They are found by name among the entry points of what is installed, so that the program neither imports nor
knows them; a production image can leave them out. Nothing is looked up unless an argument is no flag.
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

from controller.config.settings import (
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

_BARE_IGNORED_FLAGS = ("--zap-devel",)
"""The one boolean among them: an argument after it is not its value."""


@dataclass(frozen=True)
class CommandLine:
    """A parsed command line. `flags` holds the text of each flag that was given, by flag."""

    flags: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    """Flags of an earlier controller, as they were given."""
    help: bool = False
    version: bool = False


def parse_command_line(argv: Sequence[str]) -> CommandLine:
    """Parse the arguments after the program's name. The last of a repeated flag wins.

    Raises:
        UsageError: an unknown flag, a flag without its value or a stray argument.
    """
    try:
        context = _command().make_context(PROGRAM, list(argv))
    except click.BadOptionUsage as error:
        raise _misused(error) from None
    given = {name: text for name, text in context.params.items() if text is not None}
    wants_help = bool(given.pop("help")) or "-h" in context.args
    wants_version = bool(given.pop("version"))
    if wants_help or wants_version:
        return CommandLine(help=wants_help, version=wants_version)
    flags = {OPTIONS[name].flag: str(text) for name, text in given.items()}
    return CommandLine(flags=flags, ignored=_put_aside(context.args))


def ignored_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables of an earlier controller that are set."""
    return tuple(name for name in IGNORED_VARIABLES if environ.get(name))


def complete(instruction: str) -> str:
    """Answer a shell's request: `<shell>_source` for its script, `<shell>_complete` for the candidates.

    The words to complete are passed by the shell in variables of its own, which click reads.

    Raises:
        UsageError: the instruction names no shell that is known.
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


def _misused(error: click.BadOptionUsage) -> UsageError:
    for option in OPTIONS.values():
        if option.flag == error.option_name:
            return UsageError(f"{option.flag}: the value is missing: {option.value_type.allowed}")
    return UsageError(f"{error.option_name}: takes no value")


def _put_aside(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the flags that are ignored; whatever else there is, is refused."""
    ignored: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, has_value, _ = argument.partition("=")
        if name not in IGNORED_FLAGS and not name.startswith(IGNORED_FLAG_PREFIX):
            raise _unknown(argument)
        ignored.append(name)
        takes_next = not has_value and name not in _BARE_IGNORED_FLAGS
        if takes_next and rest and not rest[0].startswith("-"):
            rest.pop(0)
    return tuple(ignored)


def _expected() -> str:
    commands = command_names()
    return f"a flag, or {' or '.join(commands)} as the first word" if commands else "there are only flags"


def _unknown(argument: str) -> UsageError:
    shown = argument.partition("=")[0] if argument.startswith("-") else argument
    shown = shown if shown.isprintable() else ascii(shown)[1:-1]
    if not argument.startswith("-"):
        return UsageError(f'"{shown}" is not expected: {_expected()}; see --help')
    known = [option.flag for option in OPTIONS.values() if option.flag] + ["--help", "--version"]
    nearest = difflib.get_close_matches(f"--{shown.lstrip('-').replace('_', '-')}", known, n=1)
    advice = f"did you mean {nearest[0]}?" if nearest else "see --help"
    return UsageError(f"unknown flag {shown}: {advice}")


GROUP = "open_rl_scheduler.commands"
"""The group of entry points; each loads a function from arguments to an exit status."""

Command = Callable[[Sequence[str]], int]


def find_command(argv: Sequence[str]) -> Command | None:
    """The command that the first argument names, to be called with the others; `None` if it names none."""
    name = argv[0] if argv else ""
    if not name or name.startswith("-"):
        return None
    found = next((point for point in entry_points(group=GROUP, name=name) if _is_there(point)), None)
    return None if found is None else cast("Command", found.load())


def command_names() -> list[str]:
    """The commands that there are, in order."""
    return sorted({point.name for point in entry_points(group=GROUP) if _is_there(point)})


def _is_there(point: EntryPoint) -> bool:
    """Whether its package is: an image may hold fewer packages than were declared."""
    return find_spec(point.module.partition(".")[0]) is not None
