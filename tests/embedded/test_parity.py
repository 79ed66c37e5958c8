"""Over the socket, too, the embedded cluster gives the recorded responses of a real one (`e2e/parity`)."""

from __future__ import annotations

import pytest

from e2e.parity.cases import CASES
from e2e.parity.running import RECORDED_CASES, run_case
from informers.client.transport import KubeApi

pytestmark = pytest.mark.anyio

RECORDED = RECORDED_CASES.load()


@pytest.mark.parametrize("title", CASES)
async def test_the_embedded_cluster_responds_like_a_real_one(api: KubeApi, title: str) -> None:
    assert await run_case(CASES[title], api) == RECORDED[title]
