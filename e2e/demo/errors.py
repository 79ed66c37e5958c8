"""Errors of a demo, besides those of its control plane."""

from __future__ import annotations

from e2e.controlplane import ControlPlaneError


class ControllerFailed(ControlPlaneError):
    """The controller ended or violated its contract."""
