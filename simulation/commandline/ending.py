"""How a command line ends: every expected error is one line on standard error and an exit status.

A value that is refused is led by the option's name, and a command that does not exist followed by those that
do; what else click says is said as it is.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import click

INTERRUPTED = 130


def run_and_exit(command: click.Command, *, program: str) -> NoReturn:
    """Run the command on the process's arguments and exit with its status."""
    try:
        status = command.main(prog_name=program, standalone_mode=False) or 0
    except click.ClickException as error:
        status = refused(error)
    except (click.Abort, KeyboardInterrupt):
        status = failed("interrupted", INTERRUPTED)
    sys.exit(status)


def refused(error: click.ClickException) -> int:
    """Say why the command cannot work as it was called; returns the exit status."""
    return failed(_line(error), error.exit_code)


def failed(message: str, status: int) -> int:
    """Say it in one line; returns `status`."""
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return status


def either(names: list[str], word: str = "or") -> str:
    """Names for a sentence: `a`, `a or b`, `a, b or c`."""
    return f" {word} ".join([*([", ".join(names[:-1])] if names[:-1] else []), *names[-1:]])


def _line(error: click.ClickException) -> str:
    match error:
        case click.BadParameter(param=click.Parameter() as parameter, message=message) if message:
            return f"{_name(parameter)}: {message}"
        case click.NoSuchCommand(ctx=click.Context(command=click.Group() as group) as context):
            return f"{error.message.removesuffix('.')}: {either(group.list_commands(context))}"
        case _:
            return error.format_message()


def _name(parameter: click.Parameter) -> str:
    """The name as one writes it: an option's longest, an argument's placeholder."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.human_readable_name
