"""The simulated server answers every case as a real server did (`e2e/parity`)."""

from __future__ import annotations

import pytest

from e2e.parity.cases import CASES
from e2e.parity.running import RECORDED_CASES, RECORDED_SCENES, run_case, run_scene
from e2e.parity.scenes import SCENES
from simulation.cluster.simulated_cluster import SimulatedCluster
from tests.simulation.servers import lone_client, lone_server
from tests.simulation.simulated_owner import SimulatedOwner

pytestmark = pytest.mark.anyio

CASES_RECORDED, SCENES_RECORDED = RECORDED_CASES.load(), RECORDED_SCENES.load()


@pytest.mark.parametrize("title", CASES)
async def test_the_simulated_server_answers_like_a_real_one(title: str) -> None:
    server = lone_server()
    assert await run_case(CASES[title], lone_client(server), SimulatedOwner(server)) == CASES_RECORDED[title]


@pytest.mark.parametrize("title", SCENES)
async def test_the_actors_behave_like_the_real_components(title: str) -> None:
    async with SimulatedCluster() as cluster:
        assert await run_scene(SCENES[title], cluster.client("test")) == SCENES_RECORDED[title]


def test_every_case_and_scene_is_recorded() -> None:
    assert list(CASES_RECORDED) == list(CASES)
    assert list(SCENES_RECORDED) == list(SCENES)
