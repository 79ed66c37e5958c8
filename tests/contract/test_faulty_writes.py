"""Contract §8: each write of an operation in turn is refused, or loses its request or its answer.

The controller keeps running with its local state. The operation completes soon, without a retry interval or a
restart, and leaves nothing behind.
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
from simulation.cluster.simulated_cluster import SimulatedCluster
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
    Operation,
)
from tests.virtualtime import run_virtual

OPERATIONS = (PLACEMENT, JOIN, MOVE, RECREATION, DELETION, LAST_DELETION, ENDING)
"""The operations that need no timer of the controller."""

AT_MOST_WRITES = 30
"""A bound on the loop over the writes, which no operation reaches."""

SWEPT_LATER_SECONDS = 750.0
"""A sweep starts within ten minutes, and releases its orphans two minutes later."""

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
    """Applies a fault to the n-th write of an operation."""

    fault: Interceptor
    number: int
    seen: int = 0
    hit: str = ""

    async def __call__(self, request: Request, apply: Apply) -> bytes:
        """Count the writes, and apply the fault to the chosen one."""
        if not (audited(request) and request.writes):
            return apply()
        self.seen += 1
        if self.seen != self.number:
            return apply()
        self.hit = str(request)
        return await self.fault(request, apply)


async def run_with_fault(operation: Operation, name: str, number: int) -> str:
    """Run an operation with a fault at its n-th write, and check; returns the write, if there was one."""
    async with SimulatedCluster() as cluster:
        limit = operation.settings.max_seats_per_claim
        invariants = InvariantChecker(cluster, limit=limit)
        async with simulated_controller(cluster, operation.settings) as process:
            await operation.arrange(cluster)
            fault_at = FaultAt(FAULTS[name], number)
            process.client.interceptor = fault_at
            await operation.act(cluster)
            await anyio.sleep(QUICK_SECONDS)
            where = f"{operation} with a fault ({name}) at {fault_at.hit}"
            try:
                operation.check(cluster)
            except AssertionError as error:
                raise AssertionError(where) from error
            await anyio.sleep(SWEPT_LATER_SECONDS)
            await cluster.settle()
            assert invariants.violations == [], where
            assert violations_at_rest(cluster, limit=limit) == [], where
            operation.check(cluster)
    return fault_at.hit


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_completes_despite_a_fault_at_any_write(operation: Operation, fault: str) -> None:
    hits = []
    for number in range(1, AT_MOST_WRITES):
        hit = run_virtual(run_with_fault, operation, fault, number)
        if not hit:
            break
        hits.append(hit)
    else:
        pytest.fail(f"{operation} takes {AT_MOST_WRITES} writes or more")
    assert len(hits) >= 3, f"the operation was not done: {hits}"
