"""What a process hears of its own writes, told apart from what others do.

A reconcile that books a seat hears of it: by the answer, which enters the cache at once, or by the watch,
which may be faster. If a later step fails, that echo must not replace the back-off, or a busy server
would be stormed. What a ledger or claim tells of a worker in work is therefore kept until the
reconcile has ended: if it went well the worker is looked at again, if it failed it is retried anyway.

A status is an echo in the version that this process wrote. Any other one is somebody else's, and may be
older than what its Pod showed before: nobody comes back to it unless the worker is looked at. That is done
after a while: two processes of which one is behind would otherwise answer each other's writes for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from informers.api import ObjectKey


@dataclass
class _Told:
    """What was told of a worker while it was in work."""

    by_others: bool = False
    versions: dict[str, None] = field(default_factory=dict)
    """Versions of its status that this process is not known to have written."""


class SelfWriteFilter:
    """Which workers are being worked on, and what was told of them meanwhile."""

    def __init__(self, look_at: Callable[[ObjectKey], None], look_later: Callable[[ObjectKey], None]) -> None:
        self._look_at = look_at
        self._look_later = look_later
        self._in_work: dict[ObjectKey, _Told] = {}

    def __repr__(self) -> str:
        return f"<Echoes in_work={len(self._in_work)}>"

    @contextmanager
    def reconciling(self, key: ObjectKey) -> Iterator[None]:
        """The block is a reconcile of this worker; raising means that it is retried with back-off."""
        self._in_work[key] = told = _Told()
        try:
            yield
        except BaseException:
            del self._in_work[key]
            raise
        del self._in_work[key]
        if told.by_others:
            self._look_at(key)
        elif told.versions:
            self._look_later(key)

    def notify(self, key: ObjectKey) -> None:
        """A ledger or claim says something about this worker: look at it, now or after the reconcile."""
        if key in self._in_work:
            self._in_work[key].by_others = True
        else:
            self._look_at(key)

    def notify_status(self, key: ObjectKey, version: str) -> None:
        """The status of this worker changed in that version: look at it later, unless we wrote it."""
        if key in self._in_work:
            self._in_work[key].versions[version] = None
        else:
            self._look_later(key)

    def record_write(self, key: ObjectKey, version: str) -> None:
        """That version of the status is this process's, by the answer to its write, which is told by now."""
        if key in self._in_work:
            self._in_work[key].versions.pop(version, None)
