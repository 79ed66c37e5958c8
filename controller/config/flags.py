"""The settings of the program, each declared once (contract §7).

`Settings` is the table. Each field carries its flag, environment variable, default, type and help text. The
command line, the help and the documentation are built from it. A flag overrides its variable, which overrides
the default. An empty variable means unset.

Invariant: every `Settings` object is valid. The environment is a parameter; only `controller.main` reads
`os.environ`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from placement.types import MAX_SEATS

PROGRAM = "open-rl-scheduler"

_MAX_SHOWN = 200
_RETRY_FACTOR = 1 + ACQUIRE_JITTER
"""The renew deadline must exceed a retry period by this factor, which covers the jitter of the elector."""


class UsageError(Exception):
    """Invalid use of the program. The text is the one line that the user sees."""


class InvalidSetting(UsageError):
    """An invalid or unusable value. `setting` is the flag or variable, as the user gave it."""

    def __init__(self, setting: str, value: str, allowed: str) -> None:
        shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}..."
        quoted = json.dumps(shown, ensure_ascii=not shown.isprintable())
        super().__init__(f"{setting}: {quoted} is not allowed: {' '.join(allowed.split())}")


class PlacementStrategy(Enum):
    """The first choice for a new worker."""

    BINPACK = "binpack"
    SPREAD = "spread"


class LogLevel(Enum):
    """Minimum severities of log records."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Enum):
    """Formats of log records."""

    JSON = "json"
    TEXT = "text"


class HelpSection(Enum):
    """Sections of the help text."""

    PLACEMENT = "Placement"
    CONTROLLER = "Controller"
    LEADER_ELECTION = "Leader election"
    ENDPOINTS = "Endpoints"
    CLUSTER = "Cluster access"
    LOGGING = "Logging"


@dataclass(frozen=True)
class Option:
    """The flag and variable of a field of `Settings`. Either may be empty."""

    flag: str
    env: str
    section: HelpSection
    value_type: ValueType[Any]
    help: str
    default_help: str = ""
    """A description of the default, where the value alone is not clear."""


class Settings(BaseModel):
    """The validated settings of one process. Durations are in seconds."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", validate_default=True)

    namespace: Annotated[str, Option(
        "--namespace", "OPEN_RL_WORKER_NAMESPACE", HelpSection.PLACEMENT, DNS_LABEL,
        "Namespace of the Workloads, their claims, ledgers and worker Pods",
    )] = "openrl-system"  # fmt: skip
    device_class: Annotated[str, Option(
        "--device-class", "OPEN_RL_DEVICE_CLASS", HelpSection.PLACEMENT, DNS_SUBDOMAIN,
        "DeviceClass that claims request",
    )] = "gpu.nvidia.com"  # fmt: skip
    device_driver: Annotated[str, Option(
        "--device-driver", "OPEN_RL_DEVICE_DRIVER", HelpSection.PLACEMENT, DNS_SUBDOMAIN,
        "DRA driver that publishes the devices",
        default_help="the device class",
    )] = Field(default_factory=lambda fields: str(fields["device_class"]))  # fmt: skip
    placement_strategy: Annotated[PlacementStrategy, Option(
        "--placement-strategy", "OPEN_RL_PLACEMENT_STRATEGY", HelpSection.PLACEMENT,
        choice(PlacementStrategy),
        "First choice for a worker: a seat on a shared claim (binpack) or its own claim (spread)",
    )] = PlacementStrategy.BINPACK  # fmt: skip
    max_seats_per_claim: Annotated[int, Option(
        "--max-seats-per-claim", "OPEN_RL_MAX_SEATS_PER_CLAIM", HelpSection.PLACEMENT,
        whole_number(0, MAX_SEATS, f"a whole number from 0 (no limit) to {MAX_SEATS}"),
        "Maximum number of workers that time-share one claim and its GPU. 1 means exclusive placement: no "
        "two workers share a GPU. A lower limit evicts no worker",
        default_help="0, no limit",
    )] = 0  # fmt: skip
    retry_interval_seconds: Annotated[float, Option(
        "--retry-interval", "OPEN_RL_RECONCILE_INTERVAL", HelpSection.CONTROLLER, duration(),
        "Maximum time between two reconciles of a waiting worker",
    )] = 10.0  # fmt: skip
    placement_timeout_seconds: Annotated[float, Option(
        "--placement-timeout", "OPEN_RL_PLACEMENT_TIMEOUT", HelpSection.CONTROLLER,
        duration(zero="wait forever"),
        "Time after which an unplaced worker fails. 0 means to wait forever",
    )] = 900.0  # fmt: skip
    max_concurrent_reconciles: Annotated[int, Option(
        "--max-concurrent-reconciles", "OPEN_RL_MAX_CONCURRENT_RECONCILES", HelpSection.CONTROLLER,
        whole_number(1, 999_999_999, "a whole number of at least 1"),
        "Maximum concurrent reconciles",
    )] = 4  # fmt: skip
    leader_elect: Annotated[bool, Option(
        "--leader-elect", "", HelpSection.LEADER_ELECTION, BOOLEAN,
        "Leader election. Standby replicas wait for the leader lease",
    )] = True  # fmt: skip
    lease_duration_seconds: Annotated[float, Option(
        "--leader-elect-lease-duration", "", HelpSection.LEADER_ELECTION, duration(least_seconds=1.0),
        "Time after which standby replicas take over a lease that is not renewed",
    )] = 15.0  # fmt: skip
    renew_deadline_seconds: Annotated[float, Option(
        "--leader-elect-renew-deadline", "", HelpSection.LEADER_ELECTION, duration(),
        "Time after which a leader stops if it cannot renew its lease. It must be shorter than the lease "
            "duration",
    )] = 10.0  # fmt: skip
    retry_period_seconds: Annotated[float, Option(
        "--leader-elect-retry-period", "", HelpSection.LEADER_ELECTION, duration(),
        "Time between attempts to acquire or renew the lease. The renew deadline must be longer than "
            f"{_RETRY_FACTOR:g} times this value",
    )] = 2.0  # fmt: skip
    health_probe_bind_address: Annotated[BindAddress | None, Option(
        "--health-probe-bind-address", "", HelpSection.ENDPOINTS, BIND_ADDRESS,
        "Bind address of /healthz and /readyz. 0 turns them off",
    )] = BindAddress(host="", port=8081)  # fmt: skip
    metrics_bind_address: Annotated[BindAddress | None, Option(
        "--metrics-bind-address", "", HelpSection.ENDPOINTS, BIND_ADDRESS,
        "Bind address of /metrics (plain HTTP), such as :8080",
        default_help="0, off",
    )] = None  # fmt: skip
    kubeconfig: Annotated[str, Option(
        "--kubeconfig", "KUBECONFIG", HelpSection.CLUSTER, PATH,
        "Path of the kubeconfig file",
        default_help="in-cluster credentials, else ~/.kube/config",
    )] = ""  # fmt: skip
    context: Annotated[str, Option(
        "--context", "", HelpSection.CLUSTER, TEXT,
        "Context of the kubeconfig",
        default_help="the kubeconfig's current context",
    )] = ""  # fmt: skip
    log_level: Annotated[LogLevel, Option(
        "--log-level", "", HelpSection.LOGGING, choice(LogLevel),
        "Minimum severity of log records",
    )] = LogLevel.INFO  # fmt: skip
    log_format: Annotated[LogFormat | None, Option(
        "--log-format", "", HelpSection.LOGGING, choice(LogFormat),
        "Format of log records: one JSON object per line, or text for people",
        default_help="text on a terminal, else json",
    )] = None  # fmt: skip
    no_color: Annotated[str, Option(
        "", "NO_COLOR", HelpSection.LOGGING, TEXT,
        "Switch for colors in text logs. Any value turns them off",
    )] = ""  # fmt: skip
    pod_name: Annotated[str, Option(
        "", "POD_NAME", HelpSection.CLUSTER, TEXT,
        "Name of the controller's Pod (downward API), part of its leader-election identity",
    )] = ""  # fmt: skip
    pod_namespace: Annotated[str, Option(
        "", "POD_NAMESPACE", HelpSection.CLUSTER, DNS_LABEL,
        "Namespace of the controller's Pod (downward API). In a cluster it holds the leader lease",
    )] = ""  # fmt: skip
    service_host: Annotated[str, Option(
        "", "KUBERNETES_SERVICE_HOST", HelpSection.CLUSTER, TEXT,
        "Address of the API server. Kubernetes sets it in every Pod, so it marks an in-cluster process",
    )] = ""  # fmt: skip
    given_as: Mapping[str, str] = Field(default_factory=dict, repr=False, exclude=True)
    """The flag or variable that set a field, by field."""

    @model_validator(mode="after")
    def _validate(self) -> Settings:
        """Apply the rules of the flags to values that code passes directly."""
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
        """Whether the process connects to the cluster that it runs in."""
        return bool(self.service_host) and not self.kubeconfig and not self.context

    @property
    def lease_namespace(self) -> str:
        """The namespace of the leader lease: in a cluster the controller's own, else the workers'."""
        return (self.pod_namespace if self.in_cluster else "") or self.namespace

    @property
    def seat_limit_meaning(self) -> str:
        """The meaning of `max_seats_per_claim`, for the log."""
        if self.max_seats_per_claim == 0:
            return "no limit"
        if self.max_seats_per_claim == 1:
            return "exclusive placement: no two workers share a GPU"
        return f"at most {self.max_seats_per_claim} workers share a claim"

    def name_of(self, field: str) -> str:
        """Return the flag or variable that set the field, or could have set it."""
        return self.given_as.get(field) or OPTIONS[field].flag or OPTIONS[field].env

    def text_of(self, field: str) -> str:
        """Return the value of a field in the syntax of the command line."""
        value = getattr(self, field)
        return "" if value is None and field == "log_format" else OPTIONS[field].value_type.format(value)

    def invalid(self, field: str, allowed: str) -> InvalidSetting:
        """Return the error for a well-formed value that does not work, such as an unreadable file."""
        return InvalidSetting(self.name_of(field), self.text_of(field), allowed)


OPTIONS: Mapping[str, Option] = {
    name: option
    for name, field in Settings.model_fields.items()
    for option in field.metadata
    if isinstance(option, Option)
}
"""All fields with a flag or variable, in the order of the help."""

IGNORED_FLAGS = ("--tpu-device-class", "--tpu-device-driver")
IGNORED_FLAG_PREFIX = "--zap-"
IGNORED_VARIABLES = ("OPEN_RL_TPU_DEVICE_CLASS", "OPEN_RL_TPU_DEVICE_DRIVER")
"""Settings of an earlier controller. They are accepted and ignored."""


def resolve(flags: Mapping[str, str], environ: Mapping[str, str]) -> Settings:
    """Build the settings from the given flags and the environment.

    Raises:
        InvalidSetting: a value is not allowed.
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
    """Require lease duration > renew deadline > 1.2 retry periods. Other values make an election unsafe."""
    _check_shorter(settings, "renew_deadline_seconds", "lease_duration_seconds", 1.0)
    _check_shorter(settings, "retry_period_seconds", "renew_deadline_seconds", _RETRY_FACTOR)


def _check_shorter(settings: Settings, shorter: str, longer: str, factor: float) -> None:
    """Require that `factor` times the shorter setting is below the longer one.

    The error names a setting that the user gave: the shorter one, unless only the longer one was given.
    """
    if getattr(settings, shorter) * factor < getattr(settings, longer):
        return
    times = "" if factor == 1 else f"{factor:g} times "
    named, other, rule = shorter, longer, f"{times}it must be shorter than"
    if longer in settings.given_as and shorter not in settings.given_as:
        named, other, rule = longer, shorter, f"it must be longer than {times}".rstrip()
    raise settings.invalid(named, f"{rule} {settings.name_of(other)} ({settings.text_of(other)})")
