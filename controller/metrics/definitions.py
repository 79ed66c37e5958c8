"""Every metric of the program, defined once: name, type, labels and meaning.

Exporters, docs/operations.md, alerts and dashboard refer to these definitions, and tests compare them.
Metrics of client-go and controller-runtime keep their names, so that existing dashboards work; our own begin
with `open_rl_scheduler_`. Labels have few values: codes and kinds, never names of objects. `resource` is one
of the seven watched kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from controller.observe.counters import RepairKind
from controller.observe.gauges import PHASES, REASONS

PREFIX = "open_rl_scheduler"


class MetricType(Enum):
    """The metric types of Prometheus's text format that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class MetricDefinition:
    """One metric. `name` is the queried name: that of a counter ends in `_total`."""

    name: str
    type: MetricType
    labels: tuple[str, ...]
    help: str
    """One sentence without a period. It explains the values of a label that has a fixed set of them."""


@dataclass(frozen=True)
class MetricGroup:
    """The metrics under one heading of docs/operations.md."""

    title: str
    definitions: list[MetricDefinition] = field(default_factory=list)


GROUPS: list[MetricGroup] = []
"""All groups. Each definition below is added to the latest group."""


def _define(type_: MetricType, name: str, text: str, *labels: str) -> MetricDefinition:
    definition = MetricDefinition(name, type_, labels, text)
    GROUPS[-1].definitions.append(definition)
    return definition


_counter = partial(_define, MetricType.COUNTER)
_gauge = partial(_define, MetricType.GAUGE)
_histogram = partial(_define, MetricType.HISTOGRAM)

GROUPS.append(MetricGroup("Workers, seats and devices"))

WORKLOADS = _gauge(f"{PREFIX}_workloads", f"Workloads by status.phase: {', '.join(PHASES)}", "phase")
WORKLOAD_REASONS = _gauge(
    f"{PREFIX}_workload_reasons",
    f"Workloads that have not ended, by the code of status.reason if they have one: {', '.join(REASONS)}",
    "reason",
)
WAITING_WORKERS = _gauge(
    f"{PREFIX}_waiting_workers",
    "Workers that have not ended and have no bound Pod, by the code of status.reason; New without a status",
    "cause",
)
OLDEST_WAIT = _gauge(f"{PREFIX}_oldest_wait_seconds", "Longest current wait; 0 if no worker waits")
LEDGERS = _gauge(
    f"{PREFIX}_claimledgers", "ClaimLedgers by kind: shareable, exclusive (one worker, never shared)", "kind"
)
SEATS = _gauge(f"{PREFIX}_seats", "Seats by the kind of their ledger: shareable, exclusive", "kind")
LEDGERS_AT_LIMIT = _gauge(
    f"{PREFIX}_claimledgers_at_limit", "Shareable ClaimLedgers with at least as many seats as the limit"
)
SEAT_LIMIT = _gauge(
    f"{PREFIX}_max_seats_per_claim", "Configured seat limit; 0 is unlimited (Kubernetes allows 256)"
)
CLAIMS = _gauge(
    f"{PREFIX}_resourceclaims", "Managed ResourceClaims by state: allocated, unallocated", "state"
)
DEVICES = _gauge(
    f"{PREFIX}_devices",
    "Devices by state: present (with memory, in a complete pool of an enabled node), allocated (in the "
    "allocation of a managed claim)",
    "state",
)
NODES = _gauge(f"{PREFIX}_nodes", "Enabled nodes with devices in a complete pool")
INCOMPLETE_POOLS = _gauge(
    f"{PREFIX}_incomplete_device_pools", "Device pools ignored because they are incomplete or invalid"
)

GROUPS.append(MetricGroup("Placement activity of this process"))

ASSIGNMENTS = _counter(
    f"{PREFIX}_assignments_total",
    "Assignments of workers to claims by kind: dedicated (created for the worker), shared (joined), fallback "
    "(joined after kube-scheduler could not allocate the worker's claim), restored (read from its Pod)",
    "kind",
)
CLEARED = _counter(
    f"{PREFIX}_assignments_cleared_total",
    "Assignments removed from workers that are placed again, by the code of status.reason",
    "reason",
)
ENDED = _counter(
    f"{PREFIX}_workloads_ended_total", "Ended Workloads by reason: Succeeded, or the failure code", "reason"
)
WAIT = _histogram(
    f"{PREFIX}_placement_wait_seconds",
    "Time until the worker runs, from its creation or from when Placed became False",
)
HAND_OFF = _histogram(
    f"{PREFIX}_seat_hand_off_seconds", "Time from a freed seat to the booking of the worker activated for it"
)
BOOKINGS = _counter(
    f"{PREFIX}_seat_bookings_total",
    "Bookings by outcome: booked (seat written), adopted (seat already present), refused (by the ledger or a "
    "check), contended (every attempt lost to another writer, releases included)",
    "outcome",
)
LEDGER_CONFLICTS = _counter(
    f"{PREFIX}_ledger_conflicts_total", "Ledger writes that lost to another writer and were decided again"
)
LEDGER_UNANSWERED = _counter(
    f"{PREFIX}_ledger_unanswered_total", "Ledger writes with an unknown outcome that was read back"
)
SEATS_RELEASED = _counter(f"{PREFIX}_seats_released_total", "Released seats")
LEDGERS_RETIRED = _counter(f"{PREFIX}_claimledgers_retired_total", "ClaimLedgers deleted with their claims")
REPAIRS = _counter(
    f"{PREFIX}_repairs_total",
    "Repairs after a crash, another writer or a manual edit, by kind: "
    f"{', '.join(kind.value for kind in RepairKind)}",
    "kind",
)
SWEPT = _counter(
    f"{PREFIX}_sweep_released_total", "Orphans released by the sweep, by kind: seat, ledger, claim", "kind"
)
SWEEP_FAILURES = _counter(
    f"{PREFIX}_sweep_failures_total", "Orphans that could not be released; the next sweep retries"
)
SWEEP_SUSPECTS = _gauge(f"{PREFIX}_sweep_suspects", "Suspected orphans at the last sweep")
EVENTS_RECORDED = _counter(
    f"{PREFIX}_events_recorded_total", "Recorded Events, including repeats; most repeats are sent as a count"
)
EVENTS_SENT = _counter(
    f"{PREFIX}_events_sent_total", "Written Events by kind: created, refreshed (a higher count)", "kind"
)
EVENTS_DROPPED = _counter(
    f"{PREFIX}_events_dropped_total",
    "Dropped Events by reason: object_limit (too many about one object), overflow (too many pending), "
    "forbidden, rejected, retries (the server stayed unavailable), closed (at shutdown), unforeseen",
    "reason",
)
EVENTS_PENDING = _gauge(f"{PREFIX}_events_pending", "Events waiting to be sent")

GROUPS.append(MetricGroup("Reconciles and work queue"))

RECONCILES = _counter(
    "controller_runtime_reconcile_total",
    "Reconciles by result: success, error, requeue (after a conflict), requeue_after (requested)",
    "controller",
    "result",
)
RECONCILE_ERRORS = _counter("controller_runtime_reconcile_errors_total", "Failed reconciles", "controller")
TERMINAL_ERRORS = _counter(
    "controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed permanently", "controller"
)
PANICS = _counter(
    "controller_runtime_reconcile_panics_total",
    "Always 0: every exception in a reconcile counts as an error",
    "controller",
)
TIMEOUTS = _counter(
    "controller_runtime_reconcile_timeouts_total", "Reconciles cancelled at their time limit", "controller"
)
RECONCILE_SECONDS = _histogram(
    "controller_runtime_reconcile_time_seconds", "Duration of a reconcile", "controller"
)
MAX_RECONCILES = _gauge(
    "controller_runtime_max_concurrent_reconciles", "Maximum concurrent reconciles", "controller"
)
ACTIVE_WORKERS = _gauge("controller_runtime_active_workers", "Running reconciles", "controller")
QUEUE_DEPTH = _gauge("workqueue_depth", "Ready keys, by priority", "name", "controller", "priority")
QUEUE_ADDS = _counter("workqueue_adds_total", "Keys that became ready", "name", "controller")
QUEUE_RETRIES = _counter(
    "workqueue_retries_total", "Keys added with a delay or back-off", "name", "controller"
)
QUEUE_SECONDS = _histogram(
    "workqueue_queue_duration_seconds", "Time that a ready key waits for a worker", "name", "controller"
)
WORK_SECONDS = _histogram(
    "workqueue_work_duration_seconds", "Time that a worker spends on a key", "name", "controller"
)
UNFINISHED_SECONDS = _gauge(
    "workqueue_unfinished_work_seconds", "Total time spent so far on unfinished keys", "name", "controller"
)
LONGEST_RUNNING_SECONDS = _gauge(
    "workqueue_longest_running_processor_seconds",
    "Time spent so far on the key that has been running longest",
    "name",
    "controller",
)

GROUPS.append(MetricGroup("Watches and caches"))

LISTS = _counter("reflector_lists_total", "Started lists", "name")
LIST_SECONDS = _histogram(
    "reflector_list_duration_seconds",
    "Time from the request for a list until the cache holds all of it",
    "name",
)
ITEMS_PER_LIST = _histogram("reflector_items_per_list", "Objects per list", "name")
WATCHES = _counter("reflector_watches_total", "Started watches", "name")
SHORT_WATCHES = _counter(
    "reflector_short_watches_total", "Watches that the server closed at once without an event", "name"
)
WATCH_SECONDS = _histogram("reflector_watch_duration_seconds", "Duration of a watch", "name")
ITEMS_PER_WATCH = _histogram("reflector_items_per_watch", "Events per watch, bookmarks included", "name")
LAST_VERSION = _gauge(
    "reflector_last_resource_version", "Latest resource version of list and watch; 0 before the first", "name"
)
RELISTS = _counter(
    f"{PREFIX}_informer_lists_total",
    "Lists by cause: first, expired (410), not-found (the resource was missing), went-back (the server "
    "returned an older version), fruitless (watches without events), retry",
    "resource",
    "cause",
)
INFORMER_FAILURES = _counter(f"{PREFIX}_informer_failures_total", "Failed lists and watches", "resource")
INFORMER_UP = _gauge(
    f"{PREFIX}_informer_up", "1 while list and watch succeed, 0 after one of them failed", "resource"
)
INFORMER_SYNCED = _gauge(
    f"{PREFIX}_informer_synced", "1 once the cache holds the first list; readiness requires all", "resource"
)
LAST_EVENT_AGE = _gauge(
    f"{PREFIX}_informer_last_event_age_seconds",
    "Time since the last event of the watch; the server sends a bookmark about every 60 s",
    "resource",
)
DECODE_ERRORS = _counter(
    f"{PREFIX}_informer_decode_errors_total",
    "Received objects that could not be decoded; the cache keeps their last readable version",
    "resource",
)
HANDLER_FAILURES = _counter(
    f"{PREFIX}_informer_handler_failures_total",
    "Changes for which a handler raised an exception, which is a bug in the program",
    "resource",
)
STORE_OBJECTS = _gauge(f"{PREFIX}_informer_objects", "Cached objects", "resource")
STORE_UNREADABLE = _gauge(
    f"{PREFIX}_informer_unreadable_objects", "Existing objects that cannot be decoded", "resource"
)

GROUPS.append(MetricGroup("Requests to the API server"))

REQUESTS = _counter(
    "rest_client_requests_total",
    "HTTP requests by status code; <error> without an answer",
    "code",
    "method",
    "host",
)
REQUEST_SECONDS = _histogram(
    "rest_client_request_duration_seconds", "Time from request to response headers", "verb", "host"
)
REQUEST_RETRIES = _counter(
    "rest_client_request_retries_total",
    "Requests sent again after a 401, with renewed credentials",
    "code",
    "verb",
    "host",
)
CREDENTIAL_RENEWALS = _counter(
    f"{PREFIX}_credential_renewals_total",
    "Credential renewals by result: success, error (the old credentials stay in use)",
    "result",
)

GROUPS.append(MetricGroup("Leader election and process"))

LEADING = _gauge(
    "leader_election_master_status",
    "1 while this process leads, 0 on a standby; always 1 without leader election",
    "name",
)
SLOWPATH = _counter("leader_election_slowpath_total", "Renewals that had to read the lease", "name")
TERMS = _counter(f"{PREFIX}_leader_election_terms_total", "Times that this process became the leader")
LEASE_FAILURES = _counter(
    f"{PREFIX}_leader_election_failed_attempts_total", "Failed attempts to acquire or renew the lease"
)
WRITES_WITHHELD = _counter(
    f"{PREFIX}_writes_withheld_total", "Writes not sent because the lease was not renewed in time"
)
LOOP_LAG = _histogram(f"{PREFIX}_loop_lag_seconds", "Delay of event loop timers")
BUILD_INFO = _gauge(
    f"{PREFIX}_build_info",
    "Version and platform of the build; the value is always 1",
    "version",
    "commit",
    "date",
    "python",
    "platform",
)

DEFINITIONS = tuple(definition for group in GROUPS for definition in group.definitions)
