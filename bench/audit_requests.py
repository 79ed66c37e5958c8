"""Requests by verb and resource, counted from the API server's audit log. Pure.

Events count separately: the recorder sends them asynchronously, limits their rate and may drop them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from e2e.controlplane import Request

EVENTS = "events"
LEASES = "leases"
WATCH = "watch"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
READS = frozenset({"get", "list"})

Calls = Mapping[str, int]
"""Requests by `<verb> <resource>[/<subresource>]`."""


def count_requests(requests: Iterable[Request]) -> tuple[dict[str, int], int]:
    """Return the requests by verb and resource, and the number of Event requests."""
    counts = Counter((request.kind.verb, request.kind.resource) for request in requests)
    events = sum(count for (_, resource), count in counts.items() if resource == EVENTS)
    calls = {f"{verb} {resource}": count for (verb, resource), count in counts.items() if resource != EVENTS}
    return dict(sorted(calls.items())), events


def sum_calls(one: Calls, other: Calls) -> dict[str, int]:
    """Return the sum of two counts."""
    return dict(sorted((Counter(one) + Counter(other)).items()))


def writes(calls: Calls) -> int:
    """Return the number of writes, without leases."""
    return _count(calls, WRITES)


def reads(calls: Calls) -> int:
    """Return the number of reads, without watches and leases."""
    return _count(calls, READS)


def work(calls: Calls) -> int:
    """Return the number of requests without watches, leases and Events: the cost of placement."""
    return sum(count for call, count in calls.items() if not is_upkeep(call))


def is_upkeep(call: str) -> bool:
    """Return whether an idle controller sends the request too: a watch, or the leader's lease."""
    verb, _, resource = call.partition(" ")
    return verb == WATCH or resource == LEASES


def _count(calls: Calls, verbs: frozenset[str]) -> int:
    return sum(
        count for call, count in calls.items() if not is_upkeep(call) and call.partition(" ")[0] in verbs
    )
