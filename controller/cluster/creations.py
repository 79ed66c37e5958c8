"""Answers to writes: refused for now, or without an answer (contract §5.10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from controller.api.pods import PODS
from controller.api.verdicts import CreationVerdict, is_refused_write, verdict_of
from informers.errors import AlreadyExists, ApiError

LOST_ANSWERS_MAX = 3
"""The lost answer in a row that counts as a refusal."""

_NAMES_MAX = 4096


class WriteRefused(ApiError):
    """The rules of the cluster refuse a write for now; it had no effect, whatever the code of the answer."""

    def __init__(self, cause: ApiError) -> None:
        super().__init__(cause.message, status=cause.status, reason=cause.reason)


class CreationRefused(WriteRefused):
    """The rules of the cluster refuse to create an object for now."""

    def __init__(self, kind: str, cause: ApiError) -> None:
        super().__init__(cause)
        self.kind = kind


@contextmanager
def refusable() -> Iterator[None]:
    """Raise `WriteRefused` if the patch or deletion of the block is refused; other errors propagate.

    A webhook answers with any code. Its 404, 409 or 500 must not look like an object that has gone or
    changed, or like a lost answer.
    """
    try:
        yield
    except ApiError as error:
        if is_refused_write(error):
            raise WriteRefused(error) from error
        raise


class Creations:
    """The creations of one process, with the number of lost answers in a row."""

    def __init__(self) -> None:
        self._lost: Counter[tuple[str, str]] = Counter()

    def __repr__(self) -> str:
        return f"<Creations lost={len(self._lost)}>"

    @contextmanager
    def of(self, kind: str, name: str) -> Iterator[None]:
        """Raise `CreationRefused` for a refusal; other errors of the block propagate."""
        key = (kind, name)
        try:
            yield
        except AlreadyExists:
            self._lost.pop(key, None)
            raise
        except ApiError as error:
            verdict = verdict_of(error)
            lost = self._lost.pop(key, 0) + (verdict is CreationVerdict.SERVER_FAILED)
            # Claims and ledgers are this controller's own documents: no worker ends for a fault in them.
            is_refused = verdict is CreationVerdict.REFUSED or (
                verdict is CreationVerdict.MALFORMED and kind != PODS.kind
            )
            if is_refused or lost >= LOST_ANSWERS_MAX:
                raise CreationRefused(kind, error) from error
            if lost:
                self._lost[key] = lost
                if len(self._lost) > _NAMES_MAX:
                    del self._lost[next(iter(self._lost))]
            raise
        self._lost.pop(key, None)
