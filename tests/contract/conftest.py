"""Fixtures of the contract tests: the production controller on a simulated cluster, in virtual time."""

from collections.abc import AsyncIterator

import pytest

from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    """The virtual loop, on asyncio."""
    return VIRTUAL_BACKEND


@pytest.fixture
async def cluster() -> AsyncIterator[SimulatedCluster]:
    """A running cluster without nodes."""
    async with SimulatedCluster() as cluster:
        yield cluster
