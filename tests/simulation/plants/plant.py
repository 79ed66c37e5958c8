"""What a planted bug is: a switch that breaks one rule of the production code, and how it is thrown.

A plant replaces a function, method or constant for the time of a `with` block and puts it back, whatever
happens. It breaks the code the way a plausible edit would: nothing else about the run is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

Switch = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Plant:
    """One bug."""

    name: str
    breaks: str
    """The rule of the contract that does not hold any more, in a few words."""
    switch: Switch
    seed: int
    """A seed that finds it; without the bug the same seed passes."""
    shows_as: str
    """What the failure of that seed says, as a regular expression."""

    def __str__(self) -> str:
        return self.name


@contextmanager
def replaced(owner: object, name: str, by: object) -> Iterator[None]:
    """Let `owner.name` be something else. Raises `KeyError` where `owner` itself has no such name."""
    original = vars(owner)[name]
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, original)
