"""The cases by subject. Each one is a coroutine with a `Script` argument, and its name is its title."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from e2e.parity.cases import (
    admission,
    claims,
    creation,
    custom,
    deletion,
    lists,
    patches,
    pods,
    status,
    updates,
    watches,
)
from e2e.parity.script import Script
from e2e.parity.titles import titled

Case = Callable[[Script], Awaitable[None]]

CASES: Mapping[str, Case] = dict(
    titled(creation, updates, patches, status, deletion, lists, watches, pods, claims, custom, admission)
)
"""All cases by title, in source order."""
