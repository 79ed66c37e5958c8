"""After everything that chaos brings, the numbers are what counting the caches anew gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from controller.api.reasons import code_of
from controller.controller import Controller
from controller.observe.gauges import NEW, Gauges
from simulation.run.simulate import simulate


@contextmanager
def remembered(controllers: list[Controller]) -> Iterator[None]:
    """Keep every controller that is made while the block runs, those that crash included."""
    make = Controller.__init__

    def remember(self: Controller, *parts: object) -> None:
        make(self, *parts)  # type: ignore[arg-type]
        controllers.append(self)

    with patch.object(Controller, "__init__", remember):
        yield


def counted(controller: Controller) -> dict[str, object]:
    """The census of a controller, by walking its caches and its line."""
    caches = controller.caches
    workloads, ledgers = list(caches.workloads.store), list(caches.ledgers.store)
    claims = [claim.status.allocation for claim in caches.claims.store]
    exclusive = [len(ledger.seats) for ledger in ledgers if any(seat.exclusive for seat in ledger.seats)]
    seats = sum(len(ledger.seats) for ledger in ledgers)
    return {
        "workloads": Counter(workload.status.phase or NEW for workload in workloads),
        "reasons": Counter(
            code_of(workload.status.reason)
            for workload in workloads
            if workload.status.reason and not workload.terminal
        ),
        "waiting": len(controller.scheduling_queue),
        "ledgers": (len(ledgers) - len(exclusive), len(exclusive)),
        "seats": (seats - sum(exclusive), sum(exclusive)),
        "claims": (sum(c is not None for c in claims), sum(c is None for c in claims)),
    }


def told(gauges: Gauges) -> dict[str, object]:
    """The same, as the census has it."""
    now = gauges.statistics()
    return {
        "workloads": Counter({phase: count for phase, count in now.workloads.items() if count}),
        "reasons": Counter({reason: count for reason, count in now.reasons.items() if count}),
        "waiting": sum(now.waiting.values()),
        "ledgers": (now.shareable_ledgers, now.exclusive_ledgers),
        "seats": (now.shareable_seats, now.exclusive_seats),
        "claims": (now.allocated_claims, now.unallocated_claims),
    }


@pytest.mark.parametrize("seed", [3, 11])
def test_the_census_of_every_process_agrees_with_its_caches(seed: int) -> None:
    controllers: list[Controller] = []
    simulate(seed, around=remembered(controllers))

    # One that was killed while a list was being told has a store that is ahead of its handlers.
    told_all = [
        each for each in controllers if not any(i.store.statistics().unreported for i in each.caches.all())
    ]
    assert any(counted(controller)["workloads"] for controller in told_all)
    for controller in told_all:
        assert told(controller.gauges) == counted(controller), repr(controller)
