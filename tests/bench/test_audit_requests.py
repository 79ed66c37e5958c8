from __future__ import annotations

from bench.audit_requests import added, is_upkeep, reads, tally, work, writes
from tests.bench.builders import request


def test_requests_are_counted_by_verb_and_resource_and_events_apart() -> None:
    seen = [
        request("patch", "workloads/status"),
        request("patch", "workloads/status"),
        request("patch", "workloads"),
        request("create", "events"),
        request("patch", "events"),
    ]

    assert tally(seen) == ({"patch workloads": 1, "patch workloads/status": 2}, 2)


def test_work_is_neither_watch_nor_lease() -> None:
    calls = {
        "watch pods": 3,
        "patch leases": 5,
        "get leases": 1,
        "get pods": 2,
        "list nodes": 1,
        "create pods": 4,
    }

    assert writes(calls) == 4
    assert reads(calls) == 3
    assert work(calls) == 7
    assert [call for call in calls if is_upkeep(call)] == ["watch pods", "patch leases", "get leases"]


def test_a_request_of_an_unknown_verb_is_work_although_neither_read_nor_write() -> None:
    assert (writes({"post /somewhere": 1}), reads({"post /somewhere": 1}), work({"post /somewhere": 1})) == (
        0,
        0,
        1,
    )


def test_counts_add_up() -> None:
    assert added({"get pods": 1}, {"get pods": 2, "create pods": 1}) == {"create pods": 1, "get pods": 3}
