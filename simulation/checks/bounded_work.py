"""Bounded work (contract §8.10, contract §8.14): API calls stay in proportion to the changes of others.

The bounds are a few times the maximum of hundreds of runs, so they detect loops and storms. They apply to a
whole run: a burst that ends is allowed, but not a permanent flood of calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simulation.cluster.deployment import Replica
from simulation.engine.trace import Trace

WRITES_PER_CHANGE = 6.0
"""Write calls and dry runs, successful or not, per change that somebody else made to the cluster."""

WRITES_FREE = 300
READS_PER_CHANGE = 4.0
READS_FREE = 300

PROBE = "dry-run create"

_WRITES = ("create", "patch", "delete", "update")
_CHANGES = ("ADDED", "MODIFIED", "DELETED")
_IGNORED_KINDS = ("leases", "events", "")


def excess_work(trace: Trace, replicas: Iterable[Replica]) -> Iterator[str]:
    """Yield one sentence per exceeded bound."""
    writes = reads = applied = changes = 0
    for (verb, kind, outcome), times in trace.outcome_counts.items():
        if kind in _IGNORED_KINDS:
            continue
        if verb in _WRITES and outcome not in {"answer lost", "refusal lost"}:
            writes += times
            applied += times if outcome in {"ok", "late ok"} else 0
        elif verb == PROBE:
            # Refused workers share probes: without that, each of them would cost some (contract §8.14).
            writes += times
        elif verb == "get":
            reads += times
        elif verb in _CHANGES:
            changes += times
    foreign = changes - applied
    if writes > WRITES_FREE + WRITES_PER_CHANGE * foreign:
        yield f"{writes} writes were sent for {foreign} changes by others"
    if reads > READS_FREE + READS_PER_CHANGE * foreign:
        yield f"{reads} reads were sent for {foreign} changes by others"
    for replica in replicas:
        yield from _excess_lists(replica)


def _excess_lists(replica: Replica) -> Iterator[str]:
    """Check that a cache is listed once, and again only after a failed list or watch."""
    for informer in replica.controller.caches.all():
        statistics = informer.statistics().reflector
        # A failure may cost two lists: one at the last seen version, and a consistent one if that is refused.
        if statistics.lists_total > 1 + 2 * statistics.failures_total:
            yield (
                f"{replica.process.name} listed {informer} {statistics.lists_total} times "
                f"after {statistics.failures_total} failures"
            )
