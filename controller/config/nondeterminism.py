"""The sources of nondeterminism: random numbers, the wall clock and identifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random


@dataclass(frozen=True)
class Nondeterminism:
    """Sources that the composition root passes in, so that a simulation can replay a run."""

    rng: Random
    now: Callable[[], datetime]
    """The wall clock, in UTC."""
    new_id: Callable[[], str]
    """A new UUID."""
