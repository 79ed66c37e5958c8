"""Every setting of the program, declared once.

`Settings` is the table: each field carries its flag, environment variable, default, kind and help, and from
these come the command line, the reading of the environment, the help and the documentation. A flag beats
the environment, which beats the default; an empty variable means unset. A `Settings` that exists is valid,
however it was made. The environment is a mapping handed in: nothing here or below reads `os.environ`.

Source: contract §7, whose names and defaults are fixed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from controller.config.values import (
    BIND_ADDRESS,
    BOOLEAN,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    PATH,
    TEXT,
    BindAddress,
    ValueType,
    choice,
    duration,
    whole_number,
)
from informers.leader.election import ACQUIRE_JITTER

PROGRAM = "open-rl-scheduler"

_MAX_SHOWN = 200
_RETRY_FACTOR = 1 + ACQUIRE_JITTER
_ELECTION_ORDER = (
    (
        "renew_deadline_seconds",
        "lease_duration_seconds",
        1.0,
        "it must be shorter than",
        "it must be longer than",
    ),
    (
        "retry_period_seconds",
        "renew_deadline_seconds",
        _RETRY_FACTOR,
        f"{_RETRY_FACTOR:g} times it must be shorter than",
        f"it must be longer than {_RETRY_FACTOR:g} times",
    ),
)
"""What must be shorter than what, and by which factor: the elector's own rule, told per setting."""


class UsageError(Exception):
    """The program cannot work as it was called. Its text is the one line that the user is shown."""


class InvalidSetting(UsageError):
    """A setting has a value that is not allowed, or that turned out not to work.

    `setting` is the flag or variable that the user gave, `value` what it was given as, `allowed` what is
    allowed instead.
    """

    def __init__(self, setting: str, value: str, allowed: str) -> None:
        shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
        quoted = json.dumps(shown, ensure_ascii=not shown.isprintable())
        super().__init__(f"{setting}: {quoted} is not allowed: {' '.join(allowed.split())}")
        self.setting = setting
        self.value = value
        self.allowed = allowed


class PlacementStrategy(Enum):
    """What a worker tries first."""

    BINPACK = "binpack"
    SPREAD = "spread"


class LogLevel(Enum):
    """The least severe records that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Enum):
    """How records are written."""

    JSON = "json"
    TEXT = "text"


class HelpSection(Enum):
    """The sections of the help."""

    PLACEMENT = "Placement"
    CONTROLLER = "Controller"
    LEADER_ELECTION = "Leader election"
    ENDPOINTS = "Endpoints"
    CLUSTER = "Cluster access"
    LOGGING = "Logging"


@dataclass(frozen=True)
class Option:
    """How a field of `Settings` is set from outside. `flag` and `env` are empty where there is none."""

    flag: str
    env: str
    section: HelpSection
    value_type: ValueType[Any]
    help: str
    default_help: str = ""
    """What the help says of the default, where the value alone does not say it."""


class Settings(BaseModel):
    """The validated settings of one process. Durations are in seconds."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", validate_default=True)

    namespace: Annotated[str, Option(
        "--namespace", "OPEN_RL_WORKER_NAMESPACE", HelpSection.PLACEMENT, DNS_LABEL,
        "Namespace of the Workloads, their claims, ledgers and worker Pods",
    )] = "openrl-system"  # fmt: skip
    device_class: Annotated[str, Option(
        "--device-class", "OPEN_RL_DEVICE_CLASS", HelpSection.PLACEMENT, DNS_SUBDOMAIN,
        "DeviceClass that the claims ask for",
    )] = "gpu.nvidia.com"  # fmt: skip
    device_driver: Annotated[str, Option(
        "--device-driver", "OPEN_RL_DEVICE_DRIVER", HelpSection.PLACEMENT, DNS_SUBDOMAIN,
        "DRA driver whose ResourceSlices list the devices",
        default_help="the device class",
    )] = Field(default_factory=lambda fields: str(fields["device_class"]))  # fmt: skip
    placement_strategy: Annotated[PlacementStrategy, Option(
        "--placement-strategy", "OPEN_RL_PLACEMENT_STRATEGY", HelpSection.PLACEMENT,
        choice(PlacementStrategy),
        "What a worker tries first: binpack a seat on a shared claim, spread a claim of its own",
    )] = PlacementStrategy.BINPACK  # fmt: skip
    max_seats_per_claim: Annotated[int, Option(
        "--max-seats-per-claim", "OPEN_RL_MAX_SEATS_PER_CLAIM", HelpSection.PLACEMENT,
        whole_number(0, 256, "a whole number from 0 (no limit) to 256"),
        "How many workers may share one claim, and so one GPU by turns. 1 means exclusive placement: no two "
        "workers ever share a GPU. Lowering it evicts nobody",
        default_help="0, no limit",
    )] = 0  # fmt: skip
    retry_interval_seconds: Annotated[float, Option(
        "--retry-interval", "OPEN_RL_RECONCILE_INTERVAL", HelpSection.CONTROLLER, duration(),
        "How often a waiting worker is looked at again when nothing changes",
    )] = 10.0  # fmt: skip
    placement_timeout_seconds: Annotated[float, Option(
        "--placement-timeout", "OPEN_RL_PLACEMENT_TIMEOUT", HelpSection.CONTROLLER,
        duration(zero="wait for ever"),
        "A worker that is not placed for this long fails. 0 waits for ever",
    )] = 900.0  # fmt: skip
    max_concurrent_reconciles: Annotated[int, Option(
        "--max-concurrent-reconciles", "OPEN_RL_MAX_CONCURRENT_RECONCILES", HelpSection.CONTROLLER,
        whole_number(1, 999_999_999, "a whole number of at least 1"),
        "Most Workloads that are worked on at once",
    )] = 4  # fmt: skip
    leader_elect: Annotated[bool, Option(
        "--leader-elect", "", HelpSection.LEADER_ELECTION, BOOLEAN,
        "Work only while holding the leader lease, so that replicas can stand by",
    )] = True  # fmt: skip
    lease_duration_seconds: Annotated[float, Option(
        "--leader-elect-lease-duration", "", HelpSection.LEADER_ELECTION, duration(least_seconds=1.0),
        "How long others wait before they take over a lease that is not renewed",
    )] = 15.0  # fmt: skip
    renew_deadline_seconds: Annotated[float, Option(
        "--leader-elect-renew-deadline", "", HelpSection.LEADER_ELECTION, duration(),
        "How long the leader tries to renew before it stops. Shorter than the lease duration",
    )] = 10.0  # fmt: skip
    retry_period_seconds: Annotated[float, Option(
        "--leader-elect-retry-period", "", HelpSection.LEADER_ELECTION, duration(),
        f"Time between attempts to get or renew the lease. {_RETRY_FACTOR:g} of them are shorter than the "
            "renew deadline",
    )] = 2.0  # fmt: skip
    health_probe_bind_address: Annotated[BindAddress | None, Option(
        "--health-probe-bind-address", "", HelpSection.ENDPOINTS, BIND_ADDRESS,
        "Where /healthz and /readyz are served. 0 turns them off",
    )] = BindAddress(host="", port=8081)  # fmt: skip
    metrics_bind_address: Annotated[BindAddress | None, Option(
        "--metrics-bind-address", "", HelpSection.ENDPOINTS, BIND_ADDRESS,
        "Where /metrics is served over plain HTTP, such as :8080",
        default_help="0, off",
    )] = None  # fmt: skip
    kubeconfig: Annotated[str, Option(
        "--kubeconfig", "KUBECONFIG", HelpSection.CLUSTER, PATH,
        "Kubeconfig file to reach the cluster with",
        default_help="in-cluster credentials, else ~/.kube/config",
    )] = ""  # fmt: skip
    context: Annotated[str, Option(
        "--context", "", HelpSection.CLUSTER, TEXT,
        "Context of the kubeconfig to use",
        default_help="the kubeconfig's current context",
    )] = ""  # fmt: skip
    log_level: Annotated[LogLevel, Option(
        "--log-level", "", HelpSection.LOGGING, choice(LogLevel),
        "Least severe records to write",
    )] = LogLevel.INFO  # fmt: skip
    log_format: Annotated[LogFormat | None, Option(
        "--log-format", "", HelpSection.LOGGING, choice(LogFormat),
        "One JSON object per line, or text for people",
        default_help="text on a terminal, else json",
    )] = None  # fmt: skip
    no_color: Annotated[str, Option(
        "", "NO_COLOR", HelpSection.LOGGING, TEXT,
        "Any value turns colours off",
    )] = ""  # fmt: skip
    pod_name: Annotated[str, Option(
        "", "POD_NAME", HelpSection.CLUSTER, TEXT,
        "Name of the Pod that this process runs in (downward API), part of its identity as leader",
    )] = ""  # fmt: skip
    pod_namespace: Annotated[str, Option(
        "", "POD_NAMESPACE", HelpSection.CLUSTER, DNS_LABEL,
        "Namespace of that Pod: in a cluster, the leader lease lives there",
    )] = ""  # fmt: skip
    service_host: Annotated[str, Option(
        "", "KUBERNETES_SERVICE_HOST", HelpSection.CLUSTER, TEXT,
        "Set by Kubernetes in every Pod: tells that this process runs in a cluster",
    )] = ""  # fmt: skip
    given_as: Mapping[str, str] = Field(default_factory=dict, repr=False, exclude=True)
    """The flag or variable by which each field was set, by field."""

    @model_validator(mode="after")
    def _hold_for_settings_made_in_code(self) -> Settings:
        """Refuse what a flag would refuse. Text was checked already; this is for values."""
        for field, option in OPTIONS.items():
            value = getattr(self, field)
            if value == Settings.model_fields[field].default:
                continue
            try:
                option.value_type.parse(option.value_type.format(value))
            except ValueError:
                raise self.invalid(field, option.value_type.allowed) from None
        _check_election(self)
        return self

    @property
    def in_cluster(self) -> bool:
        """Whether the cluster that this process runs in is the one to work on."""
        return bool(self.service_host) and not self.kubeconfig and not self.context

    @property
    def lease_namespace(self) -> str:
        """Where the leader lease lives: in a cluster the controller's own namespace, else the workers'."""
        return (self.pod_namespace if self.in_cluster else "") or self.namespace

    @property
    def seat_limit_meaning(self) -> str:
        """What `max_seats_per_claim` amounts to, in words for the log."""
        if self.max_seats_per_claim == 0:
            return "no limit"
        if self.max_seats_per_claim == 1:
            return "exclusive placement: no two workers ever share a GPU"
        return f"at most {self.max_seats_per_claim} workers share a claim"

    def name_of(self, field: str) -> str:
        """The flag or variable by which `field` was set, or could have been."""
        return self.given_as.get(field) or OPTIONS[field].flag or OPTIONS[field].env

    def text_of(self, field: str) -> str:
        """The value of `field` as one would write it on the command line."""
        value = getattr(self, field)
        return "" if value is None and field == "log_format" else OPTIONS[field].value_type.format(value)

    def invalid(self, field: str, allowed: str) -> InvalidSetting:
        """The error for a value that is well-formed but does not work, such as a file that cannot be read."""
        return InvalidSetting(self.name_of(field), self.text_of(field), allowed)


def _options() -> Iterator[tuple[str, Option]]:
    for name, field in Settings.model_fields.items():
        for metadata in field.metadata:
            if isinstance(metadata, Option):
                yield name, metadata


OPTIONS: Mapping[str, Option] = dict(_options())
"""Every field that can be set from outside, in the order of the help."""

IGNORED_FLAGS = ("--tpu-device-class", "--tpu-device-driver")
IGNORED_FLAG_PREFIX = "--zap-"
IGNORED_VARIABLES = ("OPEN_RL_TPU_DEVICE_CLASS", "OPEN_RL_TPU_DEVICE_DRIVER")
"""What an earlier controller's Deployment may still carry: accepted, without effect."""


def resolve(flags: Mapping[str, str], environ: Mapping[str, str]) -> Settings:
    """Settle every setting. `flags` holds the texts that were given, by flag.

    Raises:
        InvalidSetting: the first value that is not allowed.
    """
    values: dict[str, Any] = {}
    given_as: dict[str, str] = {}
    for field, option in OPTIONS.items():
        if option.flag in flags:
            given_as[field], text = option.flag, flags[option.flag]
        elif text := environ.get(option.env, ""):
            given_as[field] = option.env
        else:
            continue
        try:
            values[field] = option.value_type.parse(text)
        except ValueError:
            raise InvalidSetting(given_as[field], text, option.value_type.allowed) from None
    return Settings(**values, given_as=given_as)


def _check_election(settings: Settings) -> None:
    """Refuse times that make an election unsafe: lease > renew deadline > 1.2 retry periods.

    The setting that is named is one that was given: the shorter one, unless only the longer one was.
    """
    for shorter, longer, factor, must_be_shorter, must_be_longer in _ELECTION_ORDER:
        if getattr(settings, shorter) * factor < getattr(settings, longer):
            continue
        if longer in settings.given_as and shorter not in settings.given_as:
            named, other, must_be = longer, shorter, must_be_longer
        else:
            named, other, must_be = shorter, longer, must_be_shorter
        raise settings.invalid(named, f"{must_be} {settings.name_of(other)} ({settings.text_of(other)})")
