"""A worker's own writes do not cut its back-off short.

A reconcile that books a seat hears of it: by the answer, which enters the cache at once, or by the watch,
which may be faster. If a later step fails, that echo must not replace the back-off, or a busy server
would be stormed. What a ledger or claim tells of a worker in work is therefore kept until the
reconcile has ended: if it went well the worker is looked at again, if it failed it is retried anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from informers.keys import ObjectKey


class Echoes:
    """Which workers are being worked on, and what was told of them meanwhile."""

    def __init__(self, look_at: Callable[[ObjectKey], None]) -> None:
        self._look_at = look_at
        # Every worker in work; true once something was told of it.
        self._in_work: dict[ObjectKey, bool] = {}

    def __repr__(self) -> str:
        return f"<Echoes in_work={len(self._in_work)}>"

    @contextmanager
    def working_on(self, key: ObjectKey) -> Iterator[None]:
        """The block is a reconcile of this worker; raising means that it is retried with back-off."""
        self._in_work[key] = False
        try:
            yield
        except BaseException:
            del self._in_work[key]
            raise
        if self._in_work.pop(key):
            self._look_at(key)

    def tell(self, key: ObjectKey) -> None:
        """A ledger or claim says something about this worker: look at it, now or after the reconcile."""
        if key in self._in_work:
            self._in_work[key] = True
        else:
            self._look_at(key)
