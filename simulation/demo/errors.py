"""What can go wrong with a demo."""

from __future__ import annotations


class DemoFailed(Exception):
    """The controller did what it must not, or ended. Its text is one line."""


class Interrupted(Exception):
    """Somebody asked for an end before the story had one."""
