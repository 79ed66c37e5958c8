"""The environment of a story: a cluster without Workloads, a running controller, and a ledger observer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from simulation.demo.handoff import Revision


class Stage(Protocol):
    """A running cluster and its controller."""

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig with all permissions."""

    def require_alive(self) -> None:
        """Raise if a process that the story needs has ended."""

    def revisions(self) -> Sequence[Revision]:
        """Return every version of every ledger so far, oldest first, as stored by the API server."""


class DemoFailed(Exception):
    """The controller ended or violated its contract. The message is one line."""


class Interrupted(Exception):
    """A signal arrived before the end of the story."""
