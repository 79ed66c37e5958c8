"""A cluster on a loopback socket for each test, and two clients: the production client and raw HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from informers.client.transport import KubeApi, connect
from simulation.embedded.cluster import EmbeddedCluster
from tests.embedded.raw_client import RawClient


@pytest.fixture
def anyio_backend() -> str:
    """Use a real event loop, because the tests use sockets."""
    return "asyncio"


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
async def api(cluster: EmbeddedCluster, tmp_path: Path) -> AsyncIterator[KubeApi]:
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    async with connect(kubeconfig=str(tmp_path / "kubeconfig")) as api:
        yield api


@pytest.fixture
async def raw(cluster: EmbeddedCluster) -> AsyncIterator[RawClient]:
    async with ClientSession(cluster.url) as session:
        yield RawClient(session)
