"""The results of a demo in rows and sentences, and the rules that it must never violate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from simulation.demo.cluster_view import ClaimRow, ClusterView, State, WaitingRow, group_by_reason
from simulation.demo.handoff import Revision, find_handoff
from simulation.demo.history import Record
from simulation.demo.mix import WorkerShape, abbreviate_names, count_of, kind_of

LIMIT_WORDS = "shared claims hold at most"
"""The words with which a wait reason names the seat limit."""


@dataclass(frozen=True)
class Replacement:
    """A deleted worker, the worker that took its place, and the time of the delete request."""

    leaver: str
    successor: str
    requested_seconds: float


@dataclass(frozen=True)
class Drain:
    """Workers that lost their node, those that moved to another one, and the times."""

    node: str
    lost: tuple[str, ...]
    moved: tuple[str, ...]
    requested_seconds: float
    settled_seconds: float
    reopened_seconds: float
    full_seconds: float
    """When all GPUs were in use again."""


@dataclass(frozen=True)
class Ending:
    """The results of a demo. All seconds are read from the same monotonic clock."""

    view: ClusterView
    now_seconds: float
    records: Mapping[str, Record]
    revisions: Sequence[Revision]
    """Every version of every ledger, oldest first."""
    replacement: Replacement
    drain: Drain


@dataclass(frozen=True)
class SummaryRow:
    """The result of one worker."""

    worker: str
    outcome: str
    shares_with: str
    waited: str


def summary_rows(ending: Ending) -> list[SummaryRow]:
    """Return one row per worker, in order of appearance."""
    claims = {row.claim: row for row in ending.view.claims}
    return [
        SummaryRow(
            worker=name,
            outcome=_outcome(record, claims.get(record.worker.claim)),
            shares_with=_shares_with(record, claims.get(record.worker.claim)),
            waited=_waited(record, ending.now_seconds),
        )
        for name, record in ending.records.items()
    ]


def waits(ending: Ending) -> tuple[WaitingRow, ...]:
    """Return all workers that ever waited, by their last reason."""
    return group_by_reason((name, record.wait_reason) for name, record in ending.records.items())


def _outcome(record: Record, claim: ClaimRow | None) -> str:
    worker = record.worker
    if record.gone_seconds is not None:
        return "deleted"
    if worker.state is not State.RUNNING or claim is None:
        return worker.state.value
    gpus = f"{len(claim.devices)} GPUs of " if len(claim.devices) > 1 else ""
    return f"runs on {gpus}{worker.node}"


def _shares_with(record: Record, claim: ClaimRow | None) -> str:
    if record.gone_seconds is not None or record.worker.state is not State.RUNNING or claim is None:
        return ""
    return ", ".join(name for name in claim.workers if name != record.worker.name) or "nobody"


def _waited(record: Record, now_seconds: float) -> str:
    still = record.first_ran_seconds is None and record.gone_seconds is None
    return f"{record.waited_seconds(now_seconds):.1f} s{' so far' if still else ''}"


def conclusions(ending: Ending, *, devices: int, limit: int) -> Iterator[str]:
    """Yield the sentences below the tables."""
    view, revisions = ending.view, ending.revisions
    running, waiting = view.in_state(State.RUNNING), view.in_state(State.WAITING)
    ledgers = {revision.ledger for revision in revisions}
    yield f"Now: {len(running)} running on {view.devices_in_use} of {devices} GPUs, {len(waiting)} waiting."
    yield (
        f"Limit: no claim ever had more than {max_seats(revisions)} of {limit} seats booked, in "
        f"{len(revisions)} versions of {count_of(len(ledgers), 'ledger')}."
    )
    yield f"Hand-off: {_handoff_sentence(ending)}"
    yield f"Drain: {_drain_sentence(ending.drain)}"


def _drain_sentence(drain: Drain) -> str:
    waited = tuple(name for name in drain.lost if name not in drain.moved)
    parts = ((drain.moved, "running elsewhere"), (waited, "waiting"))
    became = [f"{abbreviate_names(names)} {what}" for names, what in parts if names]
    settled = _milliseconds(drain.requested_seconds, drain.settled_seconds)
    full = _milliseconds(drain.reopened_seconds, drain.full_seconds)
    return (
        f"the workers of {drain.node} were settled after {settled} ({'; '.join(became)}). After the "
        f"uncordon, all GPUs were in use within {full}."
    )


def _handoff_sentence(ending: Ending) -> str:
    replacement = ending.replacement
    first_ran_seconds = ending.records[replacement.successor].first_ran_seconds
    ran = _milliseconds(replacement.requested_seconds, first_ran_seconds or ending.now_seconds)
    handoff = find_handoff(ending.revisions, replacement.leaver)
    if handoff is None or handoff.successor != replacement.successor:
        return f"{replacement.successor} got the GPU of {replacement.leaver} and ran {ran} after the request."
    freed = _milliseconds(replacement.requested_seconds, handoff.freed_seconds)
    booked = _milliseconds(handoff.freed_seconds, handoff.booked_seconds)
    return (
        f"the seat of {replacement.leaver} was freed {freed} after the deletion request and booked {booked} "
        f"later; {replacement.successor} ran {ran} after the request."
    )


def _milliseconds(start_seconds: float, end_seconds: float) -> str:
    return f"{max(0.0, end_seconds - start_seconds) * 1000:.0f} ms"


def max_seats(revisions: Iterable[Revision]) -> int:
    """Return the maximum number of seats in any ledger at any revision."""
    return max((len(revision.seats) for revision in revisions), default=0)


def violations(view: ClusterView, *, limit: int, revisions: Iterable[Revision]) -> list[str]:
    """Return one clause per violated rule, empty without violations."""
    return [*above_limit(limit, revisions), *_wrong_reasons(view)]


def above_limit(limit: int, revisions: Iterable[Revision]) -> Iterator[str]:
    """Yield one clause per ledger revision with more seats than the limit."""
    for revision in revisions:
        if len(revision.seats) > limit:
            yield f"{revision.ledger} has {len(revision.seats)} seats at a limit of {limit}"


def _wrong_reasons(view: ClusterView) -> Iterator[str]:
    """Yield wait reasons that name the limit for an exclusive worker, or omit it for a shared one."""
    for row in view.waiting:
        mentions_limit = LIMIT_WORDS in row.reason
        for name in row.workers:
            if mentions_limit != (kind_of(name) is WorkerShape.FFT):
                yield f"{name} has the wrong wait reason: {row.reason}"
