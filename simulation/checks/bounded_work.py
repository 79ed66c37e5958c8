"""Bounded work: what a controller does must be in proportion to what happened, whatever went wrong.

The bounds are a few times of what hundreds of runs showed at most, so that they tell a loop or a storm from
work. They are asked over a whole run: a burst that ends is no fault, one that goes on is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simulation.cluster.deployment import Replica
from simulation.engine.trace import Trace

WRITES_PER_CHANGE = 6.0
"""Calls that write, successful or not, for each change that somebody else made to the cluster."""

WRITES_FREE = 300
READS_PER_CHANGE = 4.0
READS_FREE = 300

_WRITES = ("create", "patch", "delete", "update")
_CHANGES = ("ADDED", "MODIFIED", "DELETED")
_ASIDE = ("leases", "events", "")


def wasteful(trace: Trace, replicas: Iterable[Replica]) -> Iterator[str]:
    """One sentence for each bound that a run has broken."""
    writes = reads = applied = changes = 0
    for (verb, kind, outcome), times in trace.outcomes.items():
        if kind in _ASIDE:
            continue
        if verb in _WRITES and outcome not in {"answer lost", "refusal lost"}:
            writes += times
            applied += times if outcome in {"ok", "late ok"} else 0
        elif verb == "get":
            reads += times
        elif verb in _CHANGES:
            changes += times
    foreign = changes - applied
    if writes > WRITES_FREE + WRITES_PER_CHANGE * foreign:
        yield f"{writes} writes were sent for {foreign} changes that others made"
    if reads > READS_FREE + READS_PER_CHANGE * foreign:
        yield f"{reads} reads were sent for {foreign} changes that others made"
    for replica in replicas:
        yield from _list_faults(replica)


def _list_faults(replica: Replica) -> Iterator[str]:
    """A cache is listed once, and again only because a list or watch failed."""
    for informer in replica.controller.caches.all():
        statistics = informer.statistics().reflector
        # A failure may cost two: a list at the last version seen, and a consistent one if that is refused.
        if statistics.lists_total > 1 + 2 * statistics.failures_total:
            yield (
                f"{replica.process.name} listed {informer} {statistics.lists_total} times, "
                f"after {statistics.failures_total} failures"
            )
