"""A planted bug: a switch that breaks one rule of the production code.

A plant replaces a function, method or constant for the duration of a `with` block, and always restores it. It
breaks the code as a plausible edit would, and changes nothing else about the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

Switch = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Plant:
    """One planted bug."""

    name: str
    broken_rule: str
    """The rule of the contract that the bug breaks, in a few words."""
    switch: Switch
    seed: int
    """A seed that fails with the bug and passes without it."""
    failure_pattern: str
    """A regular expression that matches a failure of that seed."""

    def __str__(self) -> str:
        return self.name


@contextmanager
def replaced(owner: object, name: str, replacement: object) -> Iterator[None]:
    """Replace `owner.name` in the block. Raises `KeyError` if `owner` itself does not define it."""
    original = vars(owner)[name]
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)
