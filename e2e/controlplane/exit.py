"""How a command line of the test tools ends: every expected error is one line and an exit status."""

from typing import NoReturn

import click

from e2e.controlplane.errors import ControlPlaneError
from simulation.command_line.exit_status import run_and_exit


def run_to_the_end(command: click.Command, *, program: str) -> NoReturn:
    """Run the command and exit with its status."""
    run_and_exit(command, program=program, expected=(ControlPlaneError, OSError))
