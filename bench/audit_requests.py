"""From the API server's audit log to requests by verb and resource. Pure.

Events are counted apart: they are sent beside the work, are rate limited, and may be dropped.
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


def tally(requests: Iterable[Request]) -> tuple[dict[str, int], int]:
    """Count requests by verb and resource; the second number is how many Events were sent."""
    counts = Counter((request.kind.verb, request.kind.resource) for request in requests)
    events = sum(count for (_, resource), count in counts.items() if resource == EVENTS)
    calls = {f"{verb} {resource}": count for (verb, resource), count in counts.items() if resource != EVENTS}
    return dict(sorted(calls.items())), events


def added(one: Calls, other: Calls) -> dict[str, int]:
    """The sum of two counts."""
    return dict(sorted((Counter(one) + Counter(other)).items()))


def writes(calls: Calls) -> int:
    """Requests that change something, leases apart."""
    return _count(calls, WRITES)


def reads(calls: Calls) -> int:
    """Requests that only read, watches and leases apart."""
    return _count(calls, READS)


def work(calls: Calls) -> int:
    """Every request but watches, leases and Events: what placing costs the API server."""
    return sum(count for call, count in calls.items() if not is_upkeep(call))


def is_upkeep(call: str) -> bool:
    """Whether a request is one that an idle controller sends too: a watch, or the leader's lease."""
    verb, _, resource = call.partition(" ")
    return verb == WATCH or resource == LEASES


def _count(calls: Calls, verbs: frozenset[str]) -> int:
    return sum(
        count for call, count in calls.items() if not is_upkeep(call) and call.partition(" ")[0] in verbs
    )
