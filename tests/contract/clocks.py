"""The clock errors that the tests use, and helpers that set the clocks."""

from __future__ import annotations

import anyio
import pytest

from simulation.cluster.simulated_cluster import SimulatedCluster

HALF_A_DAY_SECONDS = 12 * 3600.0
BACK_AND_FORWARD = pytest.mark.parametrize(
    "jump_seconds", [HALF_A_DAY_SECONDS, -HALF_A_DAY_SECONDS], ids=["forward", "back"]
)


async def eight_seconds_with_a_jump(cluster: SimulatedCluster, jump_seconds: float) -> None:
    """Let eight seconds pass, and set the wall clock after the first two."""
    await anyio.sleep(2)
    cluster.clock.jump(jump_seconds)
    await anyio.sleep(6)
