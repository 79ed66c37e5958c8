"""Every metric of the program, defined once: name, type, labels and what it means.

Exporters, the page for operators, alerts and dashboards all refer to these, and tests hold them to it. Names
that client-go and controller-runtime gave are kept, so that existing dashboards work; whatever is only ours
begins with `open_rl_scheduler_`. Labels have few values: codes and kinds, never names of objects. `resource`
is one of the seven kinds that are watched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from controller.observe.counters import RepairKind
from controller.observe.gauges import PHASES, REASONS

PREFIX = "open_rl_scheduler"


class MetricType(Enum):
    """The types of Prometheus's text format that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class MetricDefinition:
    """One metric. `name` is the one that a query uses, so a counter's ends in `_total`."""

    name: str
    type: MetricType
    labels: tuple[str, ...]
    help: str
    """One sentence without a period; for a label with a fixed set of values it says what they mean."""


@dataclass(frozen=True)
class MetricGroup:
    """Metrics that come from one place, under the heading of the page for operators."""

    title: str
    definitions: tuple[MetricDefinition, ...]


def _counter(name: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(name, MetricType.COUNTER, labels, text)


def _gauge(name: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(name, MetricType.GAUGE, labels, text)


def _histogram(name: str, text: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(name, MetricType.HISTOGRAM, labels, text)


def _either(values: Iterable[str]) -> str:
    return ", ".join(values)


# The fleet and who waits: what the caches of this process hold.

WORKLOADS = _gauge(f"{PREFIX}_workloads", f"Workloads by status.phase: {_either(PHASES)}", "phase")
WORKLOAD_REASONS = _gauge(
    f"{PREFIX}_workload_reasons",
    f"Workloads that have not ended and give a reason, by the code of status.reason: {_either(REASONS)}",
    "reason",
)
WAITING_WORKERS = _gauge(
    f"{PREFIX}_waiting_workers",
    "Workers in line: not ended, without a bound Pod; by the code of status.reason, New before there is one",
    "cause",
)
OLDEST_WAIT = _gauge(
    f"{PREFIX}_oldest_wait_seconds",
    "How long the worker waits that has waited longest; 0 where nobody waits",
)
LEDGERS = _gauge(
    f"{PREFIX}_claimledgers",
    "ClaimLedgers by kind: shareable, exclusive (its worker shares with nobody)",
    "kind",
)
SEATS = _gauge(f"{PREFIX}_seats", "Seats by the kind of their ledger: shareable, exclusive", "kind")
LEDGERS_AT_LIMIT = _gauge(
    f"{PREFIX}_claimledgers_at_limit",
    "Shareable ClaimLedgers with as many seats as the limit allows, or more",
)
SEAT_LIMIT = _gauge(
    f"{PREFIX}_max_seats_per_claim", "The setting of this process; 0 is no limit (256 is Kubernetes' own)"
)
CLAIMS = _gauge(
    f"{PREFIX}_resourceclaims", "Managed ResourceClaims by state: allocated, unallocated", "state"
)
DEVICES = _gauge(
    f"{PREFIX}_devices",
    "Devices by state: present (on enabled nodes, listed by a complete pool, with memory), allocated (named "
    "by the allocation of a managed claim)",
    "state",
)
NODES = _gauge(f"{PREFIX}_nodes", "Enabled nodes with devices that a complete pool lists")
INCOMPLETE_POOLS = _gauge(
    f"{PREFIX}_incomplete_device_pools", "Device pools left out because slices of them are missing"
)

# What this process did.

ASSIGNMENTS = _counter(
    f"{PREFIX}_assignments_total",
    "Claims that workers were assigned to by kind: dedicated (cut for it), shared (a seat), fallback (a "
    "seat, after kube-scheduler had refused its own claim), restored (read back from its Pod)",
    "kind",
)
CLEARED = _counter(
    f"{PREFIX}_assignments_cleared_total",
    "Assignments taken back from workers that are placed again, by the code of status.reason",
    "reason",
)
ENDED = _counter(
    f"{PREFIX}_workloads_ended_total",
    "Workloads that ended: Succeeded, or the code with which they failed",
    "reason",
)
WAIT = _histogram(
    f"{PREFIX}_placement_wait_seconds",
    "From creation, or from when Placed turned False, until the worker ran",
)
HAND_OFF = _histogram(
    f"{PREFIX}_seat_hand_off_seconds",
    "From a seat going from a ledger until the worker that was woken for it has booked one",
)
BOOKINGS = _counter(
    f"{PREFIX}_seat_bookings_total",
    "Bookings by outcome: booked (a seat was written), adopted (it was there already), refused (by the "
    "ledger or a check), contended (others won every try, releases included)",
    "outcome",
)
LEDGER_CONFLICTS = _counter(
    f"{PREFIX}_ledger_conflicts_total", "Writes of ledgers that lost to another writer and were decided again"
)
LEDGER_UNANSWERED = _counter(
    f"{PREFIX}_ledger_unanswered_total", "Writes of ledgers whose answer was lost and read back"
)
SEATS_RELEASED = _counter(f"{PREFIX}_seats_released_total", "Seats given back")
LEDGERS_RETIRED = _counter(f"{PREFIX}_claimledgers_retired_total", "ClaimLedgers deleted, with their claims")
REPAIRS = _counter(
    f"{PREFIX}_repairs_total",
    "What a crash, another writer or a hand edit had left, put right, by kind: "
    f"{_either(mend.value for mend in RepairKind)}",
    "kind",
)
SWEPT = _counter(
    f"{PREFIX}_sweep_released_total", "Orphans that the sweep released by kind: seat, ledger, claim", "kind"
)
SWEEP_FAILURES = _counter(
    f"{PREFIX}_sweep_failures_total", "Orphans that could not be released; tried again at the next look"
)
SWEEP_SUSPECTS = _gauge(f"{PREFIX}_sweep_suspects", "What looked orphaned at the last look of the sweep")
EVENTS_RECORDED = _counter(
    f"{PREFIX}_events_recorded_total", "Events recorded, repeats included; most repeats are sent as one count"
)
EVENTS_SENT = _counter(
    f"{PREFIX}_events_sent_total", "Events written by kind: created, refreshed (a count that went on)", "kind"
)
EVENTS_DROPPED = _counter(
    f"{PREFIX}_events_dropped_total",
    "Events that nobody will read by reason: object_limit (too many about one object), overflow (too many "
    "waited), forbidden, rejected, retries (the server could not take it), closed (at the end), unforeseen",
    "reason",
)
EVENTS_PENDING = _gauge(f"{PREFIX}_events_pending", "Events that wait to be sent")

# Reconciles and their queue.

RECONCILES = _counter(
    "controller_runtime_reconcile_total",
    "Reconciles by result: success, error, requeue (a conflict), requeue_after (asked for more)",
    "controller",
    "result",
)
RECONCILE_ERRORS = _counter(
    "controller_runtime_reconcile_errors_total", "Reconciles that failed", "controller"
)
TERMINAL_ERRORS = _counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Reconciles that failed in a way that no retry can mend",
    "controller",
)
PANICS = _counter(
    "controller_runtime_reconcile_panics_total",
    "Always 0: whatever a reconcile raises counts as an error",
    "controller",
)
TIMEOUTS = _counter(
    "controller_runtime_reconcile_timeouts_total",
    "Reconciles that were cut off at their time limit",
    "controller",
)
RECONCILE_SECONDS = _histogram(
    "controller_runtime_reconcile_time_seconds", "Time per reconcile", "controller"
)
MAX_RECONCILES = _gauge(
    "controller_runtime_max_concurrent_reconciles", "Most reconciles at once", "controller"
)
ACTIVE_WORKERS = _gauge("controller_runtime_active_workers", "Reconciles at this moment", "controller")
QUEUE_DEPTH = _gauge(
    "workqueue_depth", "Keys ready to be taken, by priority", "name", "controller", "priority"
)
QUEUE_ADDS = _counter("workqueue_adds_total", "Keys that became due for a run", "name", "controller")
QUEUE_RETRIES = _counter(
    "workqueue_retries_total", "Keys added with a delay or back-off", "name", "controller"
)
QUEUE_SECONDS = _histogram(
    "workqueue_queue_duration_seconds", "Time from ready to taken", "name", "controller"
)
WORK_SECONDS = _histogram("workqueue_work_duration_seconds", "Time from taken to done", "name", "controller")
UNFINISHED_SECONDS = _gauge(
    "workqueue_unfinished_work_seconds",
    "Sum over the keys in work of the time since they were taken",
    "name",
    "controller",
)
LONGEST_RUNNING_SECONDS = _gauge(
    "workqueue_longest_running_processor_seconds",
    "Time since the key that is longest in work was taken",
    "name",
    "controller",
)

# Watches and caches.

LISTS = _counter("reflector_lists_total", "Lists asked for", "name")
LIST_SECONDS = _histogram(
    "reflector_list_duration_seconds", "Time from asking for a list until all of it is in the cache", "name"
)
ITEMS_PER_LIST = _histogram("reflector_items_per_list", "Objects in a list", "name")
WATCHES = _counter("reflector_watches_total", "Watches asked for", "name")
SHORT_WATCHES = _counter(
    "reflector_short_watches_total", "Watches that the server closed at once without an event", "name"
)
WATCH_SECONDS = _histogram("reflector_watch_duration_seconds", "How long watches lasted", "name")
ITEMS_PER_WATCH = _histogram(
    "reflector_items_per_watch", "Events received from a watch, bookmarks included", "name"
)
LAST_VERSION = _gauge(
    "reflector_last_resource_version", "The version that list and watch have come to; 0 before that", "name"
)
RELISTS = _counter(
    f"{PREFIX}_informer_lists_total",
    "Lists by cause: first, expired (410), not-found (the resource was absent), went-back (the server named "
    "an older version), fruitless (watches yielded nothing), retry",
    "resource",
    "cause",
)
INFORMER_FAILURES = _counter(f"{PREFIX}_informer_failures_total", "Lists and watches that failed", "resource")
INFORMER_UP = _gauge(
    f"{PREFIX}_informer_up", "1 while list and watch work, 0 while the last one failed", "resource"
)
INFORMER_SYNCED = _gauge(
    f"{PREFIX}_informer_synced", "1 once the first list is in the cache; readiness asks for all", "resource"
)
LAST_EVENT_AGE = _gauge(
    f"{PREFIX}_informer_last_event_age_seconds",
    "Time since the server last said anything on this watch; a bookmark comes about every 60 s",
    "resource",
)
DECODE_ERRORS = _counter(
    f"{PREFIX}_informer_decode_errors_total",
    "Objects that arrived and could not be read; their last readable state is kept",
    "resource",
)
HANDLER_FAILURES = _counter(
    f"{PREFIX}_informer_handler_failures_total",
    "Changes on which a handler raised, which is a defect of the program",
    "resource",
)
STORE_OBJECTS = _gauge(f"{PREFIX}_informer_objects", "Objects in the cache", "resource")
STORE_UNREADABLE = _gauge(
    f"{PREFIX}_informer_unreadable_objects", "Objects that exist and could not be read", "resource"
)

# Requests to the API server.

REQUESTS = _counter(
    "rest_client_requests_total",
    "HTTP requests by status code; <error> where no answer came",
    "code",
    "method",
    "host",
)
REQUEST_SECONDS = _histogram(
    "rest_client_request_duration_seconds",
    "Time from sending a request to the headers of its answer",
    "verb",
    "host",
)
REQUEST_RETRIES = _counter(
    "rest_client_request_retries_total",
    "Requests sent again, which happens after a 401 with credentials that were read anew",
    "code",
    "verb",
    "host",
)
CREDENTIAL_RENEWALS = _counter(
    f"{PREFIX}_credential_renewals_total",
    "Credentials read again by result: success, error (those in use are kept)",
    "result",
)

# Leading, and the process.

LEADING = _gauge(
    "leader_election_master_status",
    "1 while this process leads, 0 while it stands by; without leader election it leads",
    "name",
)
SLOWPATH = _counter("leader_election_slowpath_total", "Renewals that had to read the lease again", "name")
TERMS = _counter(f"{PREFIX}_leader_election_terms_total", "Times that this process became the leader")
LEASE_FAILURES = _counter(
    f"{PREFIX}_leader_election_failed_attempts_total", "Attempts to get or renew the lease that failed"
)
WRITES_WITHHELD = _counter(
    f"{PREFIX}_writes_withheld_total", "Writes that were not sent because the lease was not renewed in time"
)
LOOP_LAG = _histogram(f"{PREFIX}_loop_lag_seconds", "How late the event loop came to a timer")
BUILD_INFO = _gauge(
    f"{PREFIX}_build_info",
    "Which build this is; the value is always 1",
    "version",
    "commit",
    "date",
    "python",
    "platform",
)

GROUPS = (
    MetricGroup(
        "Workers, seats and devices",
        (
            *(
                WORKLOADS,
                WORKLOAD_REASONS,
                WAITING_WORKERS,
                OLDEST_WAIT,
                LEDGERS,
                SEATS,
                LEDGERS_AT_LIMIT,
                SEAT_LIMIT,
            ),
            *(CLAIMS, DEVICES, NODES, INCOMPLETE_POOLS),
        ),
    ),
    MetricGroup(
        "What this process did",
        (
            *(ASSIGNMENTS, CLEARED, ENDED, WAIT, HAND_OFF),
            *(BOOKINGS, LEDGER_CONFLICTS, LEDGER_UNANSWERED, SEATS_RELEASED, LEDGERS_RETIRED),
            *(REPAIRS, SWEPT, SWEEP_FAILURES, SWEEP_SUSPECTS),
            *(EVENTS_RECORDED, EVENTS_SENT, EVENTS_DROPPED, EVENTS_PENDING),
        ),
    ),
    MetricGroup(
        "Reconciles and their queue",
        (
            *(RECONCILES, RECONCILE_ERRORS, TERMINAL_ERRORS, PANICS, TIMEOUTS, RECONCILE_SECONDS),
            *(MAX_RECONCILES, ACTIVE_WORKERS, QUEUE_DEPTH, QUEUE_ADDS, QUEUE_RETRIES),
            *(QUEUE_SECONDS, WORK_SECONDS, UNFINISHED_SECONDS, LONGEST_RUNNING_SECONDS),
        ),
    ),
    MetricGroup(
        "Watches and caches",
        (
            *(LISTS, LIST_SECONDS, ITEMS_PER_LIST, WATCHES, SHORT_WATCHES, WATCH_SECONDS, ITEMS_PER_WATCH),
            *(LAST_VERSION, RELISTS, INFORMER_FAILURES, INFORMER_UP, INFORMER_SYNCED, LAST_EVENT_AGE),
            *(DECODE_ERRORS, HANDLER_FAILURES, STORE_OBJECTS, STORE_UNREADABLE),
        ),
    ),
    MetricGroup(
        "Requests to the API server", (REQUESTS, REQUEST_SECONDS, REQUEST_RETRIES, CREDENTIAL_RENEWALS)
    ),
    MetricGroup(
        "Leading, and the process",
        (LEADING, SLOWPATH, TERMS, LEASE_FAILURES, WRITES_WITHHELD, LOOP_LAG, BUILD_INFO),
    ),
)

DEFINITIONS = tuple(definition for group in GROUPS for definition in group.definitions)
