"""Plants in who is looked at when, and in which order: wake-ups, queue and line."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

from controller.queue import triggers
from controller.queue.scheduling_queue import Seniority, WaitingLine
from informers.api import ObjectKey
from ledger.state import ClaimLedger
from tests.simulation.plants.plant import replaced

_BACKWARDS = {code: 0x7F - code for code in range(0x80)}
"""Turns the order of texts round."""


def deaf_to_ledger_deletions() -> AbstractContextManager[None]:
    """Nobody is woken when a ledger goes."""

    def on_delete(_events: triggers._LedgerEvents, _obj: ClaimLedger) -> None:
        return None

    return replaced(triggers._LedgerEvents, "on_delete", on_delete)


def youngest_first() -> AbstractContextManager[None]:
    """The line is kept the wrong way round: the last to come is served first."""
    join = WaitingLine.join

    def reversed_join(line: WaitingLine, key: ObjectKey, seniority: Seniority, lane: Hashable) -> None:
        created, name = seniority
        join(line, key, (created.translate(_BACKWARDS), name.translate(_BACKWARDS)), lane)

    return replaced(WaitingLine, "join", reversed_join)
