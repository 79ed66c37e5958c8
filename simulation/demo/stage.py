"""What a story is played on: a cluster without Workloads, a controller that works on it, and a witness.

What can go wrong with a demo.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from simulation.demo.handoff import Revision


class Stage(Protocol):
    """A cluster and the controller that works on it, while both run."""

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig that may do everything."""

    def require_alive(self) -> None:
        """Raise once something that the story needs has ended."""

    def revisions(self) -> Sequence[Revision]:
        """Every version of every ledger so far, oldest first; not as the controller tells it."""


class DemoFailed(Exception):
    """The controller did what it must not, or ended. Its text is one line."""


class Interrupted(Exception):
    """Somebody asked for an end before the story had one."""
