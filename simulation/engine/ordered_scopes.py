"""Insertion-ordered cancel scopes, so that anyio cancels children in one order in every run.

anyio 4 keeps the tasks and the child scopes of a cancel scope in sets. Cancellation iterates over them, so
the order of two children depends on memory addresses. Inside `ordered_scopes`, every new scope has
insertion-ordered sets instead. Tasks themselves hash by number (`simulation.engine.virtual_loop`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyio._backends import _asyncio as backend

_CancelScope: Any = backend.CancelScope


class OrderedSet(dict[Any, None]):
    """The set methods that anyio uses, in insertion order."""

    def add(self, item: object) -> None:
        """Add an item at the end unless it is present."""
        self[item] = None

    def discard(self, item: object) -> None:
        """Remove an item if it is present."""
        self.pop(item, None)

    def remove(self, item: object) -> None:
        """Remove an item. Raises `KeyError` if it is absent."""
        del self[item]


class OrderedScope(_CancelScope):  # type: ignore[misc] # the class is anyio's own, and private
    """A cancel scope that cancels its tasks and child scopes in the order in which they were added."""

    def __init__(self, deadline: float = math.inf, shield: bool = False) -> None:
        super().__init__(deadline, shield)
        self._child_scopes = OrderedSet()
        self._tasks = OrderedSet()


@contextmanager
def ordered_scopes() -> Iterator[None]:
    """Make every cancel scope that the block creates an ordered one."""
    original = backend.CancelScope
    backend.CancelScope = OrderedScope  # type: ignore[misc]
    try:
        yield
    finally:
        backend.CancelScope = original  # type: ignore[misc]
