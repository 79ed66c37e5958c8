"""A fault at every write of a deed: refused, or carried out or not without an answer. Contract §8.

The controller lives on, with what it remembers; whatever became of the write, the deed is done soon, without
a retry interval or a restart, and nothing is left over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import anyio
import pytest

from informers.errors import Conflict, Forbidden, ServerError, TooManyRequests
from simulation.apiserver.interception import Apply, Interceptor, Request
from simulation.chaos.scripted import LoseAnswer, LoseRequest, Refuse
from simulation.checks.invariants import InvariantChecker, violations_at_rest
from simulation.cluster.controller_process import simulated_controller
from simulation.cluster.simulated import SimulatedCluster
from tests.contract.harness import audited
from tests.contract.scenarios import (
    DELETION,
    ENDING,
    JOIN,
    LAST_DELETION,
    MOVE,
    PLACEMENT,
    QUICK_SECONDS,
    RECREATION,
    Deed,
)
from tests.virtualtime import run_virtual

DEEDS = (PLACEMENT, JOIN, MOVE, RECREATION, DELETION, LAST_DELETION, ENDING)
"""Those that wait for no timer of the controller."""

AT_MOST_WRITES = 30
"""No deed takes more: a bound on the loop over the writes, not on the controller."""

SWEPT_LATER_SECONDS = 750.0
"""A sweep begins within ten minutes, and releases two minutes later what it found."""

FAULTS: dict[str, Interceptor] = {
    "403": Refuse(partial(Forbidden, "exceeded quota", status=403)),
    "409": Refuse(partial(Conflict, "the object has been modified", status=409)),
    "429": Refuse(partial(TooManyRequests, "busy", retry_after_seconds=1.0)),
    "500": Refuse(partial(ServerError, "the server failed")),
    "lost request": LoseRequest(),
    "lost answer": LoseAnswer(),
}


@dataclass
class FaultAt:
    """Hurts the n-th write of a deed."""

    fault: Interceptor
    number: int
    seen: int = 0
    hit: str = ""

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """Count the writes; let the fault answer the one."""
        if not (audited(request) and request.writes):
            return apply()
        self.seen += 1
        if self.seen != self.number:
            return apply()
        self.hit = str(request)
        return await self.fault(request, apply)


async def done_with_a_fault(deed: Deed, name: str, number: int) -> str:
    """Do a deed with a fault at its write of that number; check. Returns the write, if there was one."""
    async with SimulatedCluster() as cluster:
        limit = deed.settings.max_seats_per_claim
        invariants = InvariantChecker(cluster, limit=limit)
        async with simulated_controller(cluster, deed.settings) as process:
            await deed.arrange(cluster)
            fault_at = FaultAt(FAULTS[name], number)
            process.client.interceptor = fault_at
            await deed.act(cluster)
            await anyio.sleep(QUICK_SECONDS)
            where = f"{deed} with a fault ({name}) at {fault_at.hit}"
            try:
                deed.check(cluster)
            except AssertionError as error:
                raise AssertionError(where) from error
            await anyio.sleep(SWEPT_LATER_SECONDS)
            await cluster.settle()
            assert invariants.violations == [], where
            assert violations_at_rest(cluster, limit=limit) == [], where
            deed.check(cluster)
    return fault_at.hit


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("deed", DEEDS, ids=str)
def test_a_deed_is_done_whatever_befalls_one_of_its_writes(deed: Deed, fault: str) -> None:
    hits = []
    for number in range(1, AT_MOST_WRITES):
        hit = run_virtual(done_with_a_fault, deed, fault, number)
        if not hit:
            break
        hits.append(hit)
    else:
        pytest.fail(f"{deed} takes {AT_MOST_WRITES} writes or more")
    assert len(hits) >= 3, f"the deed was not done: {hits}"
