"""The cases, by subject. Each is a coroutine that takes a `Script`; its name is its title."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import ModuleType

from e2e.parity.cases import (
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

Case = Callable[[Script], Awaitable[None]]

_SUBJECTS: tuple[ModuleType, ...] = (
    creation,
    updates,
    patches,
    status,
    deletion,
    lists,
    watches,
    pods,
    claims,
    custom,
)


def _cases() -> Iterator[tuple[str, Case]]:
    for subject in _SUBJECTS:
        for name, value in vars(subject).items():
            if getattr(value, "__module__", "") == subject.__name__ and not name.startswith("_"):
                yield f"{subject.__name__.rpartition('.')[2]}: {name.replace('_', ' ')}", value


CASES: Mapping[str, Case] = dict(_cases())
"""All cases by title, in the order in which they are written."""
