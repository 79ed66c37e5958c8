"""The planted bugs, each with a pinned seed that finds it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.plants import attempts, caches, seats, statuses, triggers
from tests.simulation.plants.plant import Plant

PLANTS: Sequence[Plant] = (
    Plant(
        "limit-for-joiners-only",
        "Every write that adds a seat obeys the limit",
        seats.limit_for_joiners_only,
        seed=4,
        failure_pattern=r"has \d+ seats; the limit is",
    ),
    Plant(
        "claim-adopted-by-name",
        "A claim whose owner UID is not that of its ledger is being deleted; a repair re-points it",
        seats.claim_adopted_by_name,
        seed=0,
        failure_pattern=r"has no ledger",
    ),
    Plant(
        "seats-written-without-version",
        "Ledger writes are conditional on the version that was read",
        seats.seats_written_without_version,
        seed=11,
        failure_pattern=r"lost its seat|has no seat|left a seat|seats; the limit",
    ),
    Plant(
        "release-on-the-cached-version",
        "After a conflict, read and decide again",
        seats.release_on_the_cached_version,
        seed=3,
        failure_pattern=r"was deleted and left a seat",
    ),
    Plant(
        "release-by-name",
        "A release names Workload, UID and assignment",
        seats.release_by_name,
        seed=179,
        failure_pattern=r"deleted before its ledger|lost its seat|lost the seat|has no seat",
    ),
    Plant(
        "adopted-under-its-old-assignment",
        "An uncommitted seat is adopted under a new assignment ID",
        seats.adopted_under_its_old_assignment,
        seed=4,
        failure_pattern=r"commits w\d+ to the seat that .* booked",
    ),
    Plant(
        "status-before-seat",
        "Order on setup: seat, then status, then Pod",
        statuses.status_before_seat,
        seed=0,
        failure_pattern=r"the status of .* names .*, where it has no seat",
    ),
    Plant(
        "status-written-without-version",
        "Status writes are conditional on the version that was read",
        statuses.status_written_without_version,
        seed=4,
        failure_pattern=r"lost its seat|where it has no seat|is terminal|without its status",
    ),
    Plant(
        "lost-answer-taken-as-failure",
        "After a lost answer, read the state back",
        statuses.lost_answer_taken_as_failure,
        seed=0,
        failure_pattern=r"lost the seat on .* that its status names",
    ),
    Plant(
        "finalizer-dropped-first",
        "The finalizer is removed last, after Pod and seats",
        statuses.finalizer_dropped_first,
        seed=0,
        failure_pattern=r"was deleted and left a (seat|Pod)",
    ),
    Plant(
        "seat-freed-while-pod-ends",
        "The seat stays booked while the Pod terminates",
        statuses.seat_freed_while_pod_ends,
        seed=0,
        failure_pattern=r"lost its seat on .* while its Pod may still run|was deleted and left a seat",
    ),
    Plant(
        "timeout-forgets-the-pod",
        "On a timeout, the Pod is deleted before Failed is written",
        statuses.timeout_forgets_the_pod,
        seed=0,
        failure_pattern=r"is Failed, and its Pod may still start",
    ),
    Plant(
        "lost-pod-taken-as-outcome",
        "A disrupted Pod is lost, not an outcome",
        statuses.lost_pod_taken_as_outcome,
        seed=1,
        failure_pattern=r"its process never ended by itself",
    ),
    Plant(
        "ledger-deletions-ignored",
        "A deleted ledger activates the Workloads of its seats",
        triggers.ledger_deletions_ignored,
        seed=0,
        failure_pattern=r"after its seat was removed from .* by hand",
    ),
    Plant(
        "youngest-first",
        "A freed seat goes to the longest-waiting worker that fits",
        triggers.youngest_first,
        seed=0,
        failure_pattern=r"has waited longer",
    ),
    Plant(
        "expired-watch-continues",
        "410 causes a relist",
        caches.expired_watch_continues,
        seed=3,
        failure_pattern=r"without a phase|still being deleted|not at rest",
    ),
    Plant(
        "writes-after-the-lease",
        "A process that may have lost its lease sends no write",
        caches.writes_after_the_lease,
        seed=0,
        failure_pattern=r"was sent by a process that may not write",
    ),
    Plant(
        "swept-at-first-sight",
        "The sweep waits two minutes and confirms an orphan by live reads",
        statuses.swept_at_first_sight,
        seed=33,
        failure_pattern=r"lost its seat|lost the seat|deleted before its ledger|deleted with ",
    ),
    Plant(
        "refusals-forgotten",
        "A node that refused a worker is closed to it for a while",
        attempts.refusals_forgotten,
        seed=2,
        failure_pattern=r"again \d+ s after it was refused there",
    ),
)
