"""One order for what anyio keeps in sets: otherwise the children of a scope are cancelled by address.

anyio 4 holds the tasks and the child scopes of a cancel scope in sets. Cancelling walks over them, so that
the order of two children differs from run to run. Inside `ordered_scopes` every new scope has sets that
remember the order of insertion instead. Tasks themselves hash by number (`simulation.engine.virtual_loop`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyio._backends import _asyncio as backend

_CancelScope: Any = backend.CancelScope


class OrderedSet(dict[Any, None]):
    """The few methods of a set that anyio uses, in order of insertion."""

    def add(self, item: object) -> None:
        """Add, in the last place unless it is there."""
        self[item] = None

    def discard(self, item: object) -> None:
        """Remove it if it is there."""
        self.pop(item, None)

    def remove(self, item: object) -> None:
        """Remove it. Raises `KeyError` if it is not there."""
        del self[item]


class OrderedScope(_CancelScope):  # type: ignore[misc] # the class is anyio's own, and private
    """A cancel scope that cancels in the order in which its tasks and scopes came."""

    def __init__(self, deadline: float = math.inf, shield: bool = False) -> None:
        super().__init__(deadline, shield)
        self._child_scopes = OrderedSet()
        self._tasks = OrderedSet()


@contextmanager
def ordered_scopes() -> Iterator[None]:
    """Scopes made in the block are ordered ones."""
    known = backend.CancelScope
    backend.CancelScope = OrderedScope  # type: ignore[misc]
    try:
        yield
    finally:
        backend.CancelScope = known  # type: ignore[misc]
