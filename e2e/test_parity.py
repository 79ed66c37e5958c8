"""A real API server responds as recorded. `tests/simulation` compares the simulated one with the records."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from e2e.controlplane import Cluster
from e2e.parity.cases import CASES
from e2e.parity.running import RECORDED_CASES, RECORDED_SCENES, run_case, run_scene
from e2e.parity.scenes import SCENES
from informers.client.transport import KubeApi, connect

pytest_plugins = ("e2e.controlplane.fixtures",)
pytestmark = pytest.mark.anyio

CASES_RECORDED, SCENES_RECORDED = RECORDED_CASES.load(), RECORDED_SCENES.load()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Use one event loop for the module: the connections of abandoned watches close while it runs."""
    return "asyncio"


@pytest.fixture(scope="module")
async def api(installed_cluster_of_session: Cluster) -> AsyncIterator[KubeApi]:
    async with connect(kubeconfig=str(installed_cluster_of_session.admin_kubeconfig)) as api:
        yield api


@pytest.mark.parametrize("title", CASES)
async def test_a_real_server_responds_as_recorded(cluster: Cluster, api: KubeApi, title: str) -> None:  # noqa: ARG001 - it is emptied
    assert await run_case(CASES[title], api) == CASES_RECORDED[title]


@pytest.mark.parametrize("title", SCENES)
async def test_a_real_control_plane_acts_as_recorded(cluster: Cluster, api: KubeApi, title: str) -> None:  # noqa: ARG001 - it is emptied
    assert await run_scene(SCENES[title], api) == SCENES_RECORDED[title]
