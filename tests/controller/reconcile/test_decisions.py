"""Decisions from a Pod's status: ended or lost, unschedulable, stuck, timed out, slow to start."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.core import Pod
from controller.config.flags import Settings
from controller.reconcile import abandon_claim, placement_timeout
from controller.reconcile.completion import PodEnd, end_of, failure_message
from controller.reconcile.context import ReconcileContext, Scope
from controller.reconcile.reporting import report_pod
from controller.reconcile.worker_pods import is_unschedulable, verdict_delay_seconds
from tests.controller.build import (
    DRIVER,
    Document,
    Parts,
    allocation,
    at,
    claim,
    condition,
    context,
    pod,
    unscheduled,
    workload,
)

pytestmark = pytest.mark.anyio


def finished(phase: str = "Failed", *states: Document, **more: Any) -> Document:
    statuses = [{"name": f"c{number}", "state": state} for number, state in enumerate(states)]
    return {"phase": phase, "containerStatuses": statuses, **more}


def exited(code: int, **words: str) -> Document:
    return {"terminated": {"exitCode": code, **words}}


WAITING: Document = {"waiting": {"reason": "ContainerCreating"}}
DISRUPTED = {"conditions": [condition("DisruptionTarget", "True", "DeletionByPodGC")]}
DELETED = {"deletionTimestamp": at()}

LOST = {
    "deleted before it ended": pod(meta=DELETED, status=finished("Failed", exited(137))),
    "deleted, but succeeded": pod(meta=DELETED, status=finished("Succeeded", exited(0))),
    "disrupted": pod(status=finished("Failed", exited(143), **DISRUPTED)),
    "rejected by the kubelet": pod(status={"phase": "Failed", "reason": "UnexpectedAdmissionError"}),
    "never started": pod(status=finished("Failed", WAITING, {})),
}
ENDED = {
    "succeeded": pod(status=finished("Succeeded", exited(0))),
    "failed": pod(status=finished("Failed", exited(1))),
    "failed in an init container": pod(
        status={
            "phase": "Failed",
            "initContainerStatuses": [{"name": "init", "state": exited(1)}],
            "containerStatuses": [{"name": "worker", "state": WAITING}],
        }
    ),
    "failed without a disruption": pod(
        status=finished("Failed", exited(1), conditions=[condition("DisruptionTarget", "False")])
    ),
    "exceeded its own deadline": pod(status=finished("Failed", exited(137), reason="DeadlineExceeded")),
    "succeeded despite a disruption": pod(status=finished("Succeeded", exited(0), **DISRUPTED)),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_a_pod_that_was_removed_is_lost(lost: Pod) -> None:
    assert end_of(lost, "worker") in {PodEnd.LOST, PodEnd.REJECTED}


@pytest.mark.parametrize("ended", ENDED.values(), ids=ENDED)
def test_a_pod_that_ended_by_itself_is_not_lost(ended: Pod) -> None:
    assert end_of(ended, "worker") in {PodEnd.SUCCEEDED, PodEnd.FAILED}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (finished("Failed", exited(1), message="the Pod's own words", reason="R"), "the Pod's own words"),
        (finished("Failed", exited(0), exited(3)), "container c1 exited with code 3"),
        (
            finished("Failed", exited(137, reason="OOMKilled")),
            "container c0 exited with code 137 (OOMKilled)",
        ),
        (
            finished("Failed", exited(1, reason="Error", message="no such model")),
            "container c0 exited with code 1 (Error: no such model)",
        ),
        (finished("Failed", exited(1, message="why")), "container c0 exited with code 1 (why)"),
        (
            finished("Failed", exited(2), initContainerStatuses=[{"name": "init", "state": exited(1)}]),
            "container init exited with code 1",
        ),
        (finished("Failed", exited(0), reason="DeadlineExceeded"), "DeadlineExceeded"),
        (finished("Failed"), "no reason given"),
    ],
)
def test_the_failure_message_comes_from_the_pod(status: Document, message: str) -> None:
    assert failure_message(pod(status=status), "worker") == message


def test_only_an_unbound_pod_with_reason_unschedulable_counts_as_unschedulable() -> None:
    assert is_unschedulable(pod(status=unscheduled()))
    others = {
        "no condition yet": pod(),
        "scheduled": pod(status={"conditions": [condition("PodScheduled", "True")]}),
        "gated": pod(status=unscheduled("SchedulingGated")),
        "an error of the scheduler": pod(status=unscheduled("SchedulerError")),
        "bound meanwhile": pod(status=unscheduled(), nodeName="node"),
        "another condition": pod(status={"conditions": [condition("Ready", "False", "Unschedulable")]}),
    }
    assert [name for name, each in others.items() if is_unschedulable(each)] == []


def parts_with(settings: Settings | None = None, **node: Any) -> tuple[Parts, ReconcileContext]:
    parts = Parts()
    parts.host(**node)
    return parts, context(parts, settings)


def patience(allocated: Document, refused: Pod, *, seen_minute: float = 0, now_minute: float = 0) -> float:
    """Return how many seconds a claim may continue to refuse a Pod."""
    parts, ctx = parts_with()
    parts.clock.advance(minutes=seen_minute)
    found = claim("claim-a", allocated=allocated)
    parts.put(found)
    parts.clock.advance(minutes=now_minute - seen_minute)
    return abandon_claim.remaining_seconds(ctx, workload(), found, refused)


def refused_since(minute: float, *, created: float = 0) -> Pod:
    return pod(status=unscheduled(since=at(minutes=minute)), meta={"creationTimestamp": at(minutes=created)})


BINDING = allocation(bindingConditions=["attached"])


def test_a_claim_may_refuse_a_pod_for_the_back_off_of_the_scheduler() -> None:
    assert patience(allocation(), refused_since(0)) == 10
    assert patience(allocation(), refused_since(0), now_minute=0.1) == 4
    assert patience(allocation(), refused_since(0), now_minute=3) == 0
    assert patience(BINDING, refused_since(0), now_minute=3) == 0, "this refusal is not from before binding"


@pytest.mark.parametrize(("transition", "created"), [(5, 1), (0, 5)], ids=["the refusal", "the Pod"])
def test_a_refusal_after_the_allocation_counts_from_the_later_of_refusal_and_pod(
    transition: float, created: float
) -> None:
    refused = refused_since(transition, created=created)
    assert patience(allocation(), refused, seen_minute=1, now_minute=5.1) == 4


@pytest.mark.parametrize(("allocated", "seconds"), [(allocation(), 90), (BINDING, 570)])
def test_a_refusal_from_before_the_allocation_waits_for_the_binding(
    allocated: Document, seconds: float
) -> None:
    assert patience(allocated, refused_since(0), seen_minute=1, now_minute=1.5) == seconds


@pytest.mark.parametrize(
    ("allocated", "seconds"),
    [(None, 120), (allocation(), 120), (BINDING, 600)],
    ids=["none", "new", "slow"],
)
def test_a_nominated_node_postpones_the_verdict_for_a_bounded_time(
    allocated: Document | None, seconds: float
) -> None:
    parts, ctx = parts_with()
    found = claim("claim-a", allocated=allocated)
    parts.put(found)

    def delay(nominated: str) -> float:
        status = unscheduled() | {"nominatedNodeName": nominated}
        return verdict_delay_seconds(ctx, workload(), found, pod(status=status))

    parts.clock.advance(minutes=30)
    assert delay("node") == seconds, "it counts from the nomination, not from the refusal"
    parts.clock.advance(seconds=seconds - 1)
    assert delay("another") == 1, "another name does not extend it"
    parts.clock.advance(seconds=1)
    assert delay("node") == 0
    assert delay("") == 0
    assert delay("node") == seconds, "a later nomination is a new one"


def test_a_refusal_without_a_timestamp_is_ignored_for_patience() -> None:
    undated = pod(status={"conditions": [{"type": "PodScheduled", "status": "False"}]})
    assert patience(allocation(), undated, seen_minute=1, now_minute=2) == 60


HOPELESS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the node refuses the role": ({"labels": {"openrl.io/sampler": "true"}}, {}),
    "the device is too small": ({}, {"accelerator": {"memory": "100Gi"}}),
}


@pytest.mark.parametrize(("node", "spec"), HOPELESS.values(), ids=HOPELESS)
def test_a_claim_that_can_never_fit_is_abandoned_at_once(node: dict[str, Any], spec: dict[str, Any]) -> None:
    parts, ctx = parts_with(**node)
    parts.shared("claim-a")
    found = ctx.claim("claim-a")
    assert found is not None
    assert abandon_claim.remaining_seconds(ctx, workload(**spec), found, refused_since(0)) == 0
    invalid = workload("invalid", accelerator={"memory": "much"})
    assert abandon_claim.remaining_seconds(ctx, invalid, found, refused_since(0)) == 10, (
        "the request is not known"
    )


def remaining(
    *conditions: Document, minute: float = 0, timeout: float = 900, exempt: float | None = None
) -> float | None:
    """Return the seconds left at that minute for a worker created at the epoch."""
    settings = Settings(device_driver=DRIVER, device_class=DRIVER, placement_timeout_seconds=timeout)
    parts, ctx = parts_with(settings)
    if exempt is not None:
        parts.clock.advance(minutes=exempt)
        parts.local_state.ages.exempt("uid-a")
    parts.clock.advance(minutes=minute - (exempt or 0))
    waiting = workload("a", status={"conditions": list(conditions)})
    return placement_timeout.remaining_seconds(ctx, waiting)


def test_the_timeout_counts_from_creation_if_placed_was_never_false() -> None:
    assert remaining() == 900
    assert remaining(minute=10) == 300
    assert remaining(minute=20) == -300
    assert remaining(condition("Other", "False", since=at(minutes=9)), minute=10) == 300
    assert remaining(condition("Placed", "Unknown", since=at(minutes=9)), minute=10) == 300


def test_the_timeout_counts_from_the_last_transition_of_placed_to_false() -> None:
    assert remaining(condition("Placed", "False", since=at(minutes=9)), minute=10) == 840


def test_a_placed_worker_has_no_timeout() -> None:
    assert remaining(condition("Placed", "True"), minute=100) is None


def test_a_timeout_of_zero_is_disabled() -> None:
    assert remaining(minute=10_000, timeout=0) is None


def test_a_pod_created_just_before_the_timeout_gets_ten_seconds() -> None:
    parts, ctx = parts_with()
    parts.clock.advance(seconds=4)
    assert placement_timeout.grace_seconds(ctx, workload("a"), pod("a")) == 6
    parts.clock.advance(seconds=7)
    assert placement_timeout.grace_seconds(ctx, workload("a"), pod("a")) == -1
    assert placement_timeout.grace_seconds(ctx, workload("a"), None) == 0


def test_the_wait_for_its_own_predecessor_claim_does_not_count() -> None:
    assert remaining(minute=10, exempt=8) == 780
    later = condition("Placed", "False", since=at(minutes=9))
    assert remaining(later, minute=10, exempt=8) == 840, "a later transition counts"


async def seconds_until_report(ctx: ReconcileContext, its_pod: Pod) -> float | None:
    result = await report_pod(ctx, Scope(workload(), its_pod))
    assert result is not None
    return result.requeue_after_seconds


async def test_a_pod_has_ten_seconds_to_start_before_the_status_reports_it() -> None:
    parts, ctx = parts_with()
    scheduled = {"conditions": [condition("PodScheduled", "True")]}
    parts.clock.advance(seconds=4)
    assert await seconds_until_report(ctx, pod(nodeName="node", status=scheduled)) == 6


async def test_a_scheduler_error_has_ten_seconds_to_recover() -> None:
    parts, ctx = parts_with()
    parts.clock.advance(seconds=9)
    retry_seconds = ctx.settings.retry_interval_seconds
    assert await seconds_until_report(ctx, pod(status=unscheduled("SchedulerError"))) == 1
    assert await seconds_until_report(ctx, pod(status=unscheduled("SchedulingGated"))) == retry_seconds
    assert await seconds_until_report(ctx, pod()) == retry_seconds
