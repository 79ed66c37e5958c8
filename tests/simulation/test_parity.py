"""The server in memory says to every case what a real server said (`e2e/parity`)."""

from __future__ import annotations

import pytest

from e2e.parity.cases import CASES
from e2e.parity.running import load_transcripts, run_case
from tests.simulation.servers import lone_client

pytestmark = pytest.mark.anyio

TRANSCRIPTS = load_transcripts()


@pytest.mark.parametrize("title", CASES)
async def test_the_server_in_memory_answers_like_a_real_one(title: str) -> None:
    assert await run_case(CASES[title], lone_client()) == TRANSCRIPTS[title]


def test_every_case_is_recorded() -> None:
    assert list(TRANSCRIPTS) == list(CASES)
