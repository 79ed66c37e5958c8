"""The scenes by subject. Each one is a coroutine with a `Stage` argument, and its name is its title."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from e2e.parity.scenes import garbage, scheduling
from e2e.parity.stage import Stage
from e2e.parity.titles import titled

Scene = Callable[[Stage], Awaitable[None]]

SCENES: Mapping[str, Scene] = dict(titled(scheduling, garbage))
"""All scenes by title, in source order."""
