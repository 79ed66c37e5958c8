"""Separation of the effects of this process's own writes from those of other writers.

A reconcile that books a seat causes an event about its own Workload: by the answer to the write, or by the
watch, which may be faster. If a later step fails, that event must not replace the back-off, or a busy server
would be flooded. Ledger and claim events about a Workload are therefore held until its reconcile has ended.
After a success they enqueue the Workload; after a failure it is retried anyway.

A status event is our own if this process wrote that version. A status written by another process may be older
than what the Pod has already shown, and no later event would correct it. Such a Workload is reconciled after
a delay. Without the delay, two processes, one of which lags, would answer each other's writes forever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from informers.api import ObjectKey


@dataclass
class _Held:
    """Events about one Workload that arrived during its reconcile."""

    by_ledger_or_claim: bool = False
    status_versions: dict[str, None] = field(default_factory=dict)
    """Versions of its status that this process is not known to have written."""


class SelfWriteFilter:
    """Holds events about Workloads while they are reconciled."""

    def __init__(
        self, activate: Callable[[ObjectKey], None], activate_later: Callable[[ObjectKey], None]
    ) -> None:
        self._activate = activate
        self._activate_later = activate_later
        self._reconciling: dict[ObjectKey, _Held] = {}

    @contextmanager
    def reconciling(self, key: ObjectKey) -> Iterator[None]:
        """Hold events about this Workload while the block runs; drop them if it raises."""
        self._reconciling[key] = held = _Held()
        try:
            yield
        except BaseException:
            del self._reconciling[key]
            raise
        del self._reconciling[key]
        if held.by_ledger_or_claim:
            self._activate(key)
        elif held.status_versions:
            self._activate_later(key)

    def notify(self, key: ObjectKey) -> None:
        """Handle a ledger or claim event about this Workload."""
        if key in self._reconciling:
            self._reconciling[key].by_ledger_or_claim = True
        else:
            self._activate(key)

    def notify_status(self, key: ObjectKey, version: str) -> None:
        """Handle a status event of this version."""
        if key in self._reconciling:
            self._reconciling[key].status_versions[version] = None
        else:
            self._activate_later(key)

    def record_write(self, key: ObjectKey, version: str) -> None:
        """Record that this process wrote the status of this version; its event has been handled by now."""
        if key in self._reconciling:
            self._reconciling[key].status_versions.pop(version, None)
