"""Over the socket, too, the embedded cluster gives the recorded responses of a real one (`e2e/parity`)."""

from __future__ import annotations

import pytest

from e2e.parity.cases import CASES, admission
from e2e.parity.running import RECORDED_CASES, run_case
from informers.client.transport import KubeApi

pytestmark = pytest.mark.anyio

RECORDED = RECORDED_CASES.load()

OWNER_RULES = frozenset(
    {
        admission.a_policy_denies_with_the_code_of_its_reason,
        admission.a_webhook_that_does_not_respond_fails_the_creation,
        admission.a_field_error_wins_over_a_policy,
        admission.a_policy_wins_over_a_name_in_use,
        admission.a_full_quota_refuses_dry_runs_too,
        admission.a_limit_range_gives_containers_their_requests,
    }
)
"""Cases with policies, webhooks, quotas and limit ranges, none of which the embedded cluster serves."""


@pytest.mark.parametrize("title", [title for title, case in CASES.items() if case not in OWNER_RULES])
async def test_the_embedded_cluster_responds_like_a_real_one(api: KubeApi, title: str) -> None:
    assert await run_case(CASES[title], api) == RECORDED[title]
