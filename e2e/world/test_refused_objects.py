"""The cluster's owner forbids what the controller creates, and permits it again later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

import pytest

from e2e.conftest import Start
from e2e.controlplane import CONTROLLER_USER, Api, Cluster
from e2e.controlplane.waiting import pause_briefly
from e2e.harness.workloads import WorkloadClient, one_gpu_nodes, workload
from e2e.world.admission import (
    CLAIM_RESOURCE,
    LEDGER_RESOURCE,
    POD_RESOURCE,
    WORDS,
    Resource,
    denying_policy,
    failing_webhook,
    pod_quota,
)

pytest_plugins = ("e2e.controlplane.fixtures",)


class Rule(NamedTuple):
    """A rule that refuses a kind of object, and the expected text of the refusal."""

    apply: Callable[[Api, Resource], AbstractContextManager[None]]
    words: str


FORBIDDEN = Rule(partial(denying_policy, reason="Forbidden"), WORDS)
INVALID = Rule(denying_policy, WORDS)
WEBHOOK = Rule(failing_webhook, "failed calling webhook")
CASES = {
    "403-pod": (FORBIDDEN, POD_RESOURCE),
    "422-pod": (INVALID, POD_RESOURCE),
    "webhook-pod": (WEBHOOK, POD_RESOURCE),
    "422-claim": (INVALID, CLAIM_RESOURCE),
    "403-ledger": (FORBIDDEN, LEDGER_RESOURCE),
}
WINDOW_SECONDS = 3
ATTEMPTS_MAX = 4
"""Attempts and probes of one worker in the first seconds, whose pauses are 1, 2, 4 seconds."""
RELENTED_SECONDS = 60


@pytest.mark.parametrize(("rule", "resource"), CASES.values(), ids=list(CASES))
def test_a_worker_says_what_is_refused_and_runs_once_it_is_permitted(
    cluster: Cluster, openrl: WorkloadClient, start: Start, rule: Rule, resource: Resource
) -> None:
    one_gpu_nodes(cluster, 1)
    start({})
    mark = cluster.audit.mark()
    with rule.apply(cluster.api, resource):
        openrl.submit(workload("trainer"))
        status = openrl.await_pending("trainer", "PodRejected")
        assert rule.words in status["conditions"][0]["message"]
        pause_briefly(WINDOW_SECONDS)
        attempts = cluster.audit.count(
            since=mark, user=CONTROLLER_USER, verb="create", resource=resource.plural
        )
        assert attempts <= ATTEMPTS_MAX
        assert (openrl.pods(), openrl.claims(), openrl.ledgers()) == ([], [], [])

    openrl.await_that(
        lambda: openrl.in_phase("Running") == {"trainer"},
        "the worker does not run although the rule is gone",
        timeout_seconds=RELENTED_SECONDS,
    )


def test_workers_over_a_quota_hold_nothing_and_the_oldest_starts_when_a_pod_ends(
    cluster: Cluster, openrl: WorkloadClient, start: Start
) -> None:
    one_gpu_nodes(cluster, 4)
    start({})
    with pod_quota(cluster.api, pods=2):
        openrl.submit(workload("first", shared=False), workload("second", shared=False))
        openrl.await_phases(["first", "second"], "Running")
        openrl.submit(workload("waits-1", shared=False))
        openrl.await_pending("waits-1", "PodRejected")
        openrl.submit(workload("waits-2", shared=False))
        status = openrl.await_pending("waits-2", "PodRejected")
        assert "exceeded quota" in status["conditions"][0]["message"]
        assert sorted(name for names in openrl.seats().values() for name in names) == ["first", "second"]

        openrl.delete("first")
        openrl.await_that(
            lambda: openrl.in_phase("Running") == {"second", "waits-1"},
            "the oldest worker over the quota does not start",
            timeout_seconds=RELENTED_SECONDS,
        )
        openrl.await_pending("waits-2", "PodRejected")
