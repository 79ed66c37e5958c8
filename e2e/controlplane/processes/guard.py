"""A process group and a folder that do not outlive the driver, however the driver ends.

Invariant: from `Guard()` on, either the driver calls `dismiss` after having cleaned up itself, or the
guardian process kills every member of `process_group`, runs the commands and removes the folder.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.controlplane.processes import guardian


class Guard:
    """Starts a guardian; processes join it with `Popen(..., process_group=guard.process_group)`."""

    def __init__(self, folder: Path | None, *, commands: Sequence[Sequence[str]] = ()) -> None:
        """Guard `folder` too, unless it is None (to be kept for debugging).

        `commands` remove what is no process of ours, such as containers; they inherit this environment.
        """
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, str(folder or ""), json.dumps(commands)],
            stdin=subprocess.PIPE,
            process_group=0,  # a group of its own: Ctrl-C in the terminal reaches the driver only
        )

    @property
    def process_group(self) -> int:
        return self._guardian.pid

    def dismiss(self) -> None:
        """Say that everything was cleaned up; wait for the guardian to end."""
        self._close(guardian.DISMISSED)

    def abandon(self) -> None:
        """Have the guardian do the cleaning now, as if the driver had died."""
        self._close(b"")

    def _close(self, message: bytes) -> None:
        self._guardian.communicate(message)
