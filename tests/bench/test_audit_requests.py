from __future__ import annotations

from bench.audit_requests import count_requests, is_upkeep, reads, sum_calls, work, writes
from tests.bench.builders import request


def test_requests_count_by_verb_and_resource_and_events_separately() -> None:
    seen = [
        request("patch", "workloads/status"),
        request("patch", "workloads/status"),
        request("patch", "workloads"),
        request("create", "events"),
        request("patch", "events"),
    ]

    assert count_requests(seen) == ({"patch workloads": 1, "patch workloads/status": 2}, 2)


def test_work_excludes_watches_and_leases() -> None:
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


def test_a_request_with_an_unknown_verb_is_work_but_neither_read_nor_write() -> None:
    assert (writes({"post /somewhere": 1}), reads({"post /somewhere": 1}), work({"post /somewhere": 1})) == (
        0,
        0,
        1,
    )


def test_counts_add_up() -> None:
    assert sum_calls({"get pods": 1}, {"get pods": 2, "create pods": 1}) == {"create pods": 1, "get pods": 3}
