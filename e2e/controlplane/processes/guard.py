"""A process group and a folder that never outlive the driver.

Invariant: after `Guard()`, either the driver cleans up and calls `dismiss`, or the guardian process kills all
members of `process_group`, runs the commands and removes the folder.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.controlplane.processes import guardian


class Guard:
    """A guardian process. Others join with `Popen(..., process_group=guard.process_group)`."""

    def __init__(self, folder: Path | None, *, commands: Sequence[Sequence[str]] = ()) -> None:
        """Start the guardian. It removes `folder`, unless that is None (kept for debugging).

        `commands` remove other resources, such as containers. They inherit this environment.
        """
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, str(folder or ""), json.dumps(commands)],
            stdin=subprocess.PIPE,
            process_group=0,  # its own group, so that Ctrl-C reaches only the driver
        )

    @property
    def process_group(self) -> int:
        return self._guardian.pid

    def dismiss(self) -> None:
        """Report that cleanup is complete, and wait for the guardian to end."""
        self._close(guardian.DISMISSED)

    def abandon(self) -> None:
        """Make the guardian clean up now, as if the driver had died."""
        self._close(b"")

    def _close(self, message: bytes) -> None:
        self._guardian.communicate(message)
