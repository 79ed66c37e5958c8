"""After a run with faults, the gauges equal a fresh count of the caches."""

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
def recording(controllers: list[Controller]) -> Iterator[None]:
    """Record every controller created while the block runs, including those that crash."""
    make = Controller.__init__

    def record(self: Controller, *parts: object) -> None:
        make(self, *parts)  # type: ignore[arg-type]
        controllers.append(self)

    with patch.object(Controller, "__init__", record):
        yield


def counted(controller: Controller) -> dict[str, object]:
    """Count a controller's caches and scheduling queue."""
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


def shown(gauges: Gauges) -> dict[str, object]:
    """Return the same numbers as the gauges show them."""
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
def test_the_gauges_of_every_process_agree_with_its_caches(seed: int) -> None:
    controllers: list[Controller] = []
    simulate(seed, around=recording(controllers))

    # A process killed during the delivery of a list has a store that is ahead of its handlers.
    delivered = [
        each for each in controllers if not any(i.store.statistics().unreported for i in each.caches.all())
    ]
    assert any(counted(controller)["workloads"] for controller in delivered)
    for controller in delivered:
        assert shown(controller.gauges) == counted(controller), repr(controller)
