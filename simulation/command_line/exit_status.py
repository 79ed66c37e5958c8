"""Exit of a command line: every expected error is one line on standard error and an exit status.

An invalid value is reported with the option's name, an unknown command with the list of commands. Other
messages of click are printed unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import click

FAILED = 1
INTERRUPTED = 130


def run_and_exit(
    command: click.Command,
    *,
    program: str,
    expected: tuple[type[Exception], ...] = (),
    interrupted: str = "interrupted",
) -> NoReturn:
    """Run the command with the process's arguments and exit with its status; see `run`."""
    sys.exit(run(command, None, program=program, expected=expected, interrupted=interrupted))


def run(
    command: click.Command,
    arguments: Sequence[str] | None,
    *,
    program: str,
    expected: tuple[type[Exception], ...] = (),
    interrupted: str = "interrupted",
) -> int:
    """Run the command with `arguments`, by default the process's, and return the exit status.

    An error of a class in `expected`, alone in an exception group or by itself, ends with its `exit_status`,
    or 1 without one. Its notes are printed before it. `interrupted` is printed on an interrupt.
    """
    try:
        return command.main(arguments, prog_name=program, standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return refused(error)
    except (click.Abort, KeyboardInterrupt):
        return failed(interrupted, INTERRUPTED)
    except BaseExceptionGroup as group:
        cause = _only_cause(group)
        if not isinstance(cause, expected):
            raise
        return _failed_by(cause)
    except expected as error:
        return _failed_by(error)


def refused(error: click.ClickException) -> int:
    """Print a usage error and return the exit status."""
    return failed(_line(error), error.exit_code)


def failed(message: str, status: int) -> int:
    """Print the message as one line and return `status`."""
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return status


def join_names(names: list[str], word: str = "or") -> str:
    """Join names for a sentence: `a`, `a or b`, `a, b or c`."""
    return f" {word} ".join([*([", ".join(names[:-1])] if names[:-1] else []), *names[-1:]])


def _failed_by(error: BaseException) -> int:
    for note in getattr(error, "__notes__", ()):
        click.echo(note, err=True)
    return failed(str(error), getattr(error, "exit_status", FAILED))


def _only_cause(error: BaseException) -> BaseException:
    """Return the only exception in nested groups, or the innermost group with several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _line(error: click.ClickException) -> str:
    match error:
        case click.BadParameter(param=click.Parameter() as parameter, message=message) if message:
            return f"{_name(parameter)}: {message}"
        case click.NoSuchCommand(ctx=click.Context(command=click.Group() as group) as context):
            return f"{error.message.removesuffix('.')}: {join_names(group.list_commands(context))}"
        case _:
            return error.format_message()


def _name(parameter: click.Parameter) -> str:
    """Return the displayed name: an option's longest name, an argument's placeholder."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.human_readable_name
