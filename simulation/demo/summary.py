"""What happened, in words and rows, and what must never have happened. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from simulation.demo.cluster_view import ClaimRow, ClusterView, State, WaitingRow, group_by_reason
from simulation.demo.handoff import Revision, find_handoff
from simulation.demo.history import Record
from simulation.demo.mix import WorkerShape, kind_of, listed

LIMIT_WORDS = "shared claims hold at most"
"""How a waiting worker's reason names the seat limit."""


@dataclass(frozen=True)
class Handover:
    """Who gave its place to whom, and when that was asked for."""

    giver: str
    taker: str
    asked_seconds: float


@dataclass(frozen=True)
class Drain:
    """Who lost its place to a drained node, who of them found another one, and how long that took."""

    node: str
    lost: tuple[str, ...]
    moved: tuple[str, ...]
    asked_seconds: float
    settled_seconds: float
    reopened_seconds: float
    full_seconds: float
    """When all GPUs were at work again."""


@dataclass(frozen=True)
class Ending:
    """All that is known at the end. Seconds are of one monotonic clock."""

    view: ClusterView
    now_seconds: float
    records: Mapping[str, Record]
    revisions: Sequence[Revision]
    """Every version of every ledger, oldest first."""
    handover: Handover
    drain: Drain


@dataclass(frozen=True)
class SummaryRow:
    """One worker's outcome."""

    worker: str
    outcome: str
    company: str
    waited: str


def summary_rows(ending: Ending) -> list[SummaryRow]:
    """One row for each worker, in the order of coming."""
    claims = {row.claim: row for row in ending.view.claims}
    return [
        SummaryRow(
            worker=name,
            outcome=_outcome(record, claims.get(record.worker.claim)),
            company=_company(record, claims.get(record.worker.claim)),
            waited=_waited(record, ending.now_seconds),
        )
        for name, record in ending.records.items()
    ]


def waits(ending: Ending) -> tuple[WaitingRow, ...]:
    """Who waited for which reason, whether it still does or not."""
    return group_by_reason((name, record.waited_for) for name, record in ending.records.items())


def _outcome(record: Record, claim: ClaimRow | None) -> str:
    worker = record.worker
    if record.left_seconds is not None:
        return f"left {worker.node}"
    if worker.state is not State.RUNNING or claim is None:
        return worker.state.value
    gpus = f"{len(claim.devices)} GPUs of " if len(claim.devices) > 1 else ""
    return f"runs on {gpus}{worker.node}"


def _company(record: Record, claim: ClaimRow | None) -> str:
    if record.left_seconds is not None or record.worker.state is not State.RUNNING or claim is None:
        return ""
    return ", ".join(name for name in claim.workers if name != record.worker.name) or "alone"


def _waited(record: Record, now_seconds: float) -> str:
    still = record.ran_seconds is None and record.left_seconds is None
    return f"{record.waited_seconds(now_seconds):.1f} s{' so far' if still else ''}"


def conclusions(ending: Ending, *, devices: int, limit: int) -> Iterator[str]:
    """The sentences below the rows."""
    view, revisions = ending.view, ending.revisions
    running, waiting = view.in_state(State.RUNNING), view.in_state(State.WAITING)
    ledgers = {revision.ledger for revision in revisions}
    yield (f"Now: {len(running)} running on {view.devices_in_use} of {devices} GPUs, {len(waiting)} waiting.")
    yield (
        f"Limit: no ledger ever held more than {most_seats(revisions)} of {limit} seats: {len(revisions)} "
        f"versions of {len(ledgers)} ledgers were seen."
    )
    yield f"Hand-off: {_handoff_sentence(ending)}"
    yield f"Drain: {_drain_sentence(ending.drain)}"


def _drain_sentence(drain: Drain) -> str:
    waited = tuple(name for name in drain.lost if name not in drain.moved)
    parts = ((drain.moved, "ran elsewhere"), (waited, "waited"))
    became = [
        f"{'all of them' if names == drain.lost else listed(names)} {what}" for names, what in parts if names
    ]
    settled = _gap(drain.asked_seconds, drain.settled_seconds)
    full = _gap(drain.reopened_seconds, drain.full_seconds)
    return (
        f"{listed(drain.lost)} lost {drain.node}; after {settled} {' and '.join(became)}. Every GPU was at "
        f"work {full} after the node was opened again."
    )


def _handoff_sentence(ending: Ending) -> str:
    handover = ending.handover
    ran_seconds = ending.records[handover.taker].ran_seconds
    ran = _gap(handover.asked_seconds, ran_seconds or ending.now_seconds)
    handoff = find_handoff(ending.revisions, handover.giver)
    if handoff is None or handoff.taker != handover.taker:
        return f"the GPU of {handover.giver} went to {handover.taker}, which ran {ran} after the deletion."
    freed = _gap(handover.asked_seconds, handoff.freed_seconds)
    taken = _gap(handoff.freed_seconds, handoff.taken_seconds)
    return (
        f"the seat of {handover.giver} was free {freed} after its deletion, {handover.taker} had it {taken} "
        f"later and ran {ran} after the deletion."
    )


def _gap(start_seconds: float, end_seconds: float) -> str:
    return f"{max(0.0, end_seconds - start_seconds) * 1000:.0f} ms"


def most_seats(revisions: Iterable[Revision]) -> int:
    """The most seats of any ledger at any revision."""
    return max((len(revision.seats) for revision in revisions), default=0)


def broken_promises(view: ClusterView, *, limit: int, revisions: Iterable[Revision]) -> list[str]:
    """What must never be seen, one clause each; empty if all is well."""
    return [*above_limit(limit, revisions), *_misleading_reasons(view)]


def above_limit(limit: int, revisions: Iterable[Revision]) -> Iterator[str]:
    """Ledgers that held more seats than may be, one clause for each revision."""
    for revision in revisions:
        if len(revision.seats) > limit:
            yield f"{revision.ledger} held {len(revision.seats)} seats at a limit of {limit}"


def _misleading_reasons(view: ClusterView) -> Iterator[str]:
    """A worker that could share says that it waits at the limit; one that never shares does not."""
    for row in view.waiting:
        names_limit = LIMIT_WORDS in row.reason
        for name in row.workers:
            if names_limit != (kind_of(name) is WorkerShape.FFT):
                yield f"{name} waits with a reason that is not its own: {row.reason}"
