"""The sources of what differs between two runs: chance, the wall clock, identifiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random


@dataclass(frozen=True)
class Nondeterminism:
    """Handed in at the composition root, so that a simulation can replay a run."""

    rng: Random
    now: Callable[[], datetime]
    """The wall clock, in UTC."""
    new_id: Callable[[], str]
    """A fresh UUID."""
