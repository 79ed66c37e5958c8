"""How a command line of the test tools ends: every expected error is one line and an exit status."""

import sys
from typing import NoReturn

import click

from e2e.controlplane.binaries import to_stderr
from e2e.controlplane.errors import ControlPlaneError
from simulation.commandline.ending import INTERRUPTED, failed, refused


def run_to_the_end(command: click.Command, *, program: str, interrupted: str = "interrupted") -> NoReturn:
    """Run the command and exit with its status; `interrupted` is said when it was."""
    try:
        status = command.main(prog_name=program, standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        to_stderr(error.format_message())
        status = error.exit_code
    except click.ClickException as error:
        status = refused(error)
    except click.Abort:
        status = failed(interrupted, INTERRUPTED)
    except ControlPlaneError as error:
        for note in getattr(error, "__notes__", []):
            to_stderr(note)
        status = failed(str(error), error.exit_status)
    except OSError as error:
        status = failed(str(error), 1)
    sys.exit(status)
