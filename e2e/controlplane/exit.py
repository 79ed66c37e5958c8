"""Exit of the command lines of the test tools: each expected error is one line and an exit status."""

from typing import NoReturn

import click

from e2e.controlplane.errors import ControlPlaneError
from simulation.command_line.exit_status import run_and_exit


def run_cli(command: click.Command, *, program: str) -> NoReturn:
    """Run the command and exit with its status."""
    run_and_exit(command, program=program, expected=(ControlPlaneError, OSError))
