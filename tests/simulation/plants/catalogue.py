"""The planted bugs, each with a seed that finds it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.plants import caches, seats, statuses, triggers
from tests.simulation.plants.plant import Plant

PLANTS: Sequence[Plant] = (
    Plant(
        "limit-for-joiners-only",
        "Every write that adds a seat obeys the limit",
        seats.limit_for_joiners_only,
        seed=4,
        shows_as=r"has \d+ seats; the limit is",
    ),
    Plant(
        "claim-adopted-by-name",
        "A claim whose owner UID is not its ledger's is dying, and is re-pointed by a repair",
        seats.claim_adopted_by_name,
        seed=0,
        shows_as=r"has no ledger",
    ),
    Plant(
        "seats-written-without-version",
        "Every write is conditional on what it was decided from: ledgers",
        seats.seats_written_without_version,
        seed=27,
        shows_as=r"lost its seat|has no seat|left a seat|seats; the limit",
    ),
    Plant(
        "release-on-the-cached-version",
        "A conflict means: read again, decide again",
        seats.release_on_the_cached_version,
        seed=12,
        shows_as=r"was deleted and left a seat",
    ),
    Plant(
        "release-by-name",
        "A release names workload, UID and assignment",
        seats.release_by_name,
        seed=32,
        shows_as=r"deleted before its ledger|lost its seat|lost the seat|has no seat",
    ),
    Plant(
        "adopted-under-its-old-assignment",
        "An uncommitted seat is adopted under a fresh assignment ID",
        seats.adopted_under_its_old_assignment,
        seed=4,
        shows_as=r"commits w\d+ to the seat that .* booked",
    ),
    Plant(
        "status-before-seat",
        "Order up: seat, then status, then Pod",
        statuses.status_before_seat,
        seed=0,
        shows_as=r"the status of .* names .*, where it has no seat",
    ),
    Plant(
        "status-written-without-version",
        "Every write is conditional on what it was decided from: statuses",
        statuses.status_written_without_version,
        seed=0,
        shows_as=r"lost its seat|where it has no seat|is terminal|without its status",
    ),
    Plant(
        "lost-answer-taken-as-failure",
        "A lost answer is no answer",
        statuses.lost_answer_taken_as_failure,
        seed=0,
        shows_as=r"lost the seat on .* that its status names",
    ),
    Plant(
        "finalizer-dropped-first",
        "The finalizer is dropped when Pod and seats are gone",
        statuses.finalizer_dropped_first,
        seed=0,
        shows_as=r"was deleted and left a (seat|Pod)",
    ),
    Plant(
        "seat-freed-while-pod-ends",
        "The seat stays booked while the Pod terminates",
        statuses.seat_freed_while_pod_ends,
        seed=0,
        shows_as=r"lost its seat on .* while its Pod may still run",
    ),
    Plant(
        "timeout-forgets-the-pod",
        "Time-out: the Pod first, then Failed",
        statuses.timeout_forgets_the_pod,
        seed=0,
        shows_as=r"is Failed, and its Pod may still start",
    ),
    Plant(
        "lost-pod-taken-as-outcome",
        "A Pod that was taken away is lost, not an outcome",
        statuses.lost_pod_taken_as_outcome,
        seed=1,
        shows_as=r"its process never ended by itself",
    ),
    Plant(
        "ledger-deletions-ignored",
        "A deleted ledger wakes the Workloads of its seats",
        triggers.ledger_deletions_ignored,
        seed=0,
        shows_as=r"after its seat was removed from .* by hand",
    ),
    Plant(
        "youngest-first",
        "A freed seat goes to the longest-waiting worker that fits",
        triggers.youngest_first,
        seed=0,
        shows_as=r"has waited longer",
    ),
    Plant(
        "expired-watch-continues",
        "410: list again",
        caches.expired_watch_continues,
        seed=3,
        shows_as=r"without a phase|still being deleted|not at rest",
    ),
    Plant(
        "writes-after-the-lease",
        "A process that may have lost its lease sends no write",
        caches.writes_after_the_lease,
        seed=0,
        shows_as=r"was sent by a process that may not write",
    ),
    Plant(
        "swept-at-first-sight",
        "Sweep: looked orphaned for two minutes, and fresh reads agree",
        statuses.swept_at_first_sight,
        seed=122,
        shows_as=r"lost its seat|lost the seat|deleted before its ledger|deleted with ",
    ),
)
