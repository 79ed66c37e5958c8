"""What can go wrong with a demo beyond what can go wrong with its control plane."""

from __future__ import annotations

from e2e.controlplane import ControlPlaneError


class ControllerFailed(ControlPlaneError):
    """The controller did what it must not, or ended."""
