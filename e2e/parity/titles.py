"""Cases and scenes are the public coroutine functions of modules, and their names are their titles."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any


def titled(*subjects: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield title and coroutine function of each case or scene, in source order."""
    for subject in subjects:
        for name, value in vars(subject).items():
            if iscoroutinefunction(value) and not name.startswith("_"):
                yield f"{subject.__name__.rpartition('.')[2]}: {name.replace('_', ' ')}", value
