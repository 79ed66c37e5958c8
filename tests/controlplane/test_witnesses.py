"""The observers of the scenarios: what they report as lost or disturbed, and what they do not report."""

from typing import Any

from e2e.harness.ledger_watch import LedgerWitness
from e2e.harness.pod_watch import PodWitness


def ledger(name: str, *workers: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"seats": [{"workload": worker} for worker in workers]}}


def witness(*revisions: dict[str, Any]) -> LedgerWitness:
    made = LedgerWitness()
    for revision in revisions:
        made.record("MODIFIED", revision)
    return made


def test_a_seat_that_remains_booked_is_not_lost() -> None:
    seen = witness(ledger("l", "a"), ledger("other"), ledger("l", "a", "b"), ledger("l", "b", "a"))

    assert seen.lost_seats({"l": ["a", "b"]}) == []
    assert seen.most_seats == 2


def test_a_seat_missing_from_one_revision_is_lost() -> None:
    seen = witness(ledger("l", "a", "b"), ledger("l", "a"), ledger("l", "a", "b"))

    assert seen.lost_seats({"l": ["a", "b"]}) == ["b on l"]


def test_a_seat_that_was_never_seen_is_lost() -> None:
    assert witness(ledger("l", "a")).lost_seats({"l": ["b"], "unseen": ["c"]}) == ["b on l", "c on unseen"]


def pod(*, node: str = "", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": "1", "name": "p"},
        "spec": {"nodeName": node} if node else {},
        "status": status,
    }


def container(restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"restartCount": restarts, "state": state}]}


def test_a_pod_deleted_before_binding_is_not_disturbed() -> None:
    seen = PodWitness()
    seen.record("ADDED", pod())
    seen.record("DELETED", pod())

    assert seen.disturbed() == []


def test_a_pod_with_a_node_is_disturbed_by_its_end_and_by_a_restart() -> None:
    for kind, version in (
        ("DELETED", pod(node="n")),
        ("MODIFIED", pod(node="n", **container(restarts=1, running={}))),
    ):
        seen = PodWitness()
        seen.record("ADDED", pod(node="n", **container(running={})))
        assert seen.disturbed() == []
        seen.record(kind, version)
        assert seen.disturbed() == ["p"]


def test_a_grace_period_starts_with_the_deletion_request() -> None:
    seen = PodWitness()
    ending = pod(node="n", **container(terminated={"exitCode": 3, "finishedAt": "2026-01-01T00:00:07Z"}))
    ending["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 25}
    seen.record("MODIFIED", ending)

    ended = seen.named("p")
    assert ended.exit_code == 3
    assert ended.ended is not None
    assert ended.deletion_requested is not None
    assert (ended.ended - ended.deletion_requested).total_seconds() == 2


def test_an_end_without_kubelet_status_has_no_exit_status() -> None:
    seen = PodWitness()
    unknown = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    seen.record("MODIFIED", pod(node="n", **container(terminated=unknown)))

    assert (seen.named("p").exit_code, seen.named("p").ended) == (None, None)
