"""The order of preference among the claims that a worker can join (contract §3)."""

from __future__ import annotations

from typing import NamedTuple


class ClaimRank(NamedTuple):
    """The preference for a claim among those that can be joined: lower is better. Names break ties."""

    size_bytes: int
    """Size of its device: the largest if there are several, 0 if none is known."""
    owners: int
    seats: int
