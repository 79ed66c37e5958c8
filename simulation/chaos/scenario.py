"""The scenario of a run, drawn from the seed: the fleet, the controller's settings, and the users' actions.

In an *ample* scenario every worker is small and there is a device for each, so all workers that were not
ended must run at the end, whatever faults occurred. The other scenarios are *mixed*: workers and nodes of all
sizes, and often too few devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from controller.config.flags import PlacementStrategy, Settings
from simulation.actors.base import Delays
from simulation.cluster.nodes import NodeShape
from simulation.cluster.workloads import workload
from simulation.engine.random_streams import Streams, happens

CHAOS_SECONDS = 1500.0
"""User actions and faults occur in the first 25 minutes of a run."""

MEMORIES = ("24Gi", "40Gi", "80Gi", "141Gi")
NEEDS = ("8Gi", "20Gi", "24Gi", "33Gi", "40Gi", "70Gi", "80Gi", "120Gi")


@dataclass(frozen=True)
class UserAction:
    """An action of a user, or of a worker's own process, and its time."""

    seconds: float
    verb: str
    """`submit`, `delete`, `succeed` or `fail`."""
    name: str
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Scenario:
    """Everything about one run except its faults."""

    nodes: Mapping[str, NodeShape]
    settings: Settings
    replicas: int
    actions: tuple[UserAction, ...]
    ample: bool
    delays: Delays
    """The delays of the cluster's components."""

    def __str__(self) -> str:
        limit, strategy = self.settings.max_seats_per_claim, self.settings.placement_strategy.value
        kind = "ample" if self.ample else "mixed"
        submitted = sum(action.verb == "submit" for action in self.actions)
        timeout = self.settings.placement_timeout_seconds
        return (
            f"{kind}: {len(self.nodes)} nodes, {submitted} Workloads, {self.replicas} replicas, "
            f"limit {limit}, {strategy}, timeout {timeout:g} s, "
            f"{self.settings.max_concurrent_reconciles} reconciles at once, "
            f"lease {self.settings.lease_duration_seconds:g} s"
        )


def draw_scenario(streams: Streams) -> Scenario:
    """Draw the scenario of a seed."""
    rng = streams.get("scenario")
    ample = happens(rng, 0.3)
    users = streams.get("users")
    actions = _ample_actions(users) if ample else _mixed_actions(users)
    nodes = _ample_fleet(rng) if ample else _mixed_fleet(rng)
    settings, replicas = _settings(rng, ample=ample), rng.choice((1, 2, 2, 2))
    return Scenario(nodes, settings, replicas, tuple(actions), ample, _delays(streams.get("delays")))


def _delays(rng: Random) -> Delays:
    """Draw delays: most clusters are fast, some have slow Pods or components."""
    return Delays(
        scheduling_seconds=rng.choice((0.01, 0.01, 0.5)),
        binding_seconds=rng.choice((0.02, 0.02, 1.0)),
        pod_start_seconds=rng.choice((0.2, 2.0, 20.0)),
        pod_stop_seconds=rng.choice((0.2, 2.0, 25.0)),
        claim_release_seconds=rng.choice((0.02, 0.02, 2.0)),
        garbage_seconds=rng.choice((0.3, 0.3, 5.0)),
        spread=0.5,
    )


def _settings(rng: Random, *, ample: bool) -> Settings:
    # Lease renewals dominate the cost of a quiet run, so the short production times are rarer.
    lease, renew, retry = rng.choice(((15.0, 10.0, 2.0), *2 * [(60.0, 40.0, 10.0), (45.0, 30.0, 8.0)]))
    return Settings(
        retry_interval_seconds=rng.choice((10.0, 30.0, 60.0)),
        placement_strategy=rng.choice((PlacementStrategy.BINPACK, PlacementStrategy.SPREAD)),
        max_seats_per_claim=rng.choice((0, 1, 2, 2, 3, 4)),
        placement_timeout_seconds=0.0 if ample else rng.choice((0.0, 300.0, 900.0)),
        max_concurrent_reconciles=rng.choice((1, 2, 4, 8)),
        lease_duration_seconds=lease,
        renew_deadline_seconds=renew,
        retry_period_seconds=retry,
    )


# Fleets.


def _mixed_fleet(rng: Random) -> dict[str, NodeShape]:
    nodes = {}
    for number in range(rng.randint(2, 6)):
        roles: tuple[str, ...] = rng.choice(((), (), (), ("trainer",), ("sampler",), ("trainer", "sampler")))
        nodes[f"node-{number}"] = NodeShape(
            gpus=rng.choice((1, 2, 2, 4)),
            gpu_memory=rng.choice(MEMORIES),
            host_memory=rng.choice(("32Gi", "128Gi", "512Gi")),
            enabled=happens(rng, 0.95),
            roles=roles,
        )
    return nodes


def _ample_fleet(rng: Random) -> dict[str, NodeShape]:
    gpus = rng.choice((4, 8))
    return {f"node-{number}": NodeShape(gpus=gpus, gpu_memory="80Gi") for number in range(48 // gpus)}


# Users.


def _mixed_actions(rng: Random) -> list[UserAction]:
    count = rng.randint(20, 60)
    storm_seconds = rng.uniform(0, CHAOS_SECONDS * 0.8) if happens(rng, 0.4) else None
    ends_share = rng.uniform(0.3, 0.95)
    actions: list[UserAction] = []
    for number in range(count):
        seconds = rng.uniform(0, CHAOS_SECONDS * 0.9)
        if storm_seconds is not None and happens(rng, 0.6):
            seconds = storm_seconds + rng.random() * 5
        actions += _life(rng, f"w{number}", seconds, _mixed_body, ends_share)
    return sorted(actions, key=lambda action: (action.seconds, action.name))


def _ample_actions(rng: Random) -> list[UserAction]:
    actions: list[UserAction] = []
    for number in range(rng.randint(20, 40)):
        actions += _life(rng, f"w{number}", rng.uniform(0, CHAOS_SECONDS * 0.9), _ample_body, 0.4)
    return sorted(actions, key=lambda action: (action.seconds, action.name))


def _life(
    rng: Random,
    name: str,
    seconds: float,
    body: Callable[[Random, str], dict[str, Any]],
    ends_share: float,
) -> list[UserAction]:
    """Return the actions on one Workload from submission to its end, if any; some are submitted again."""
    actions = [UserAction(seconds, "submit", name, body(rng, name))]
    if rng.random() < ends_share:
        seconds += rng.expovariate(1 / 300)
        actions.append(UserAction(seconds, rng.choice(("delete", "delete", "succeed", "fail")), name))
        if happens(rng, 0.2):
            seconds += rng.choice((0.0, 0.5, 5.0, 60.0))
            actions.append(UserAction(seconds, "delete", name))
            actions.append(UserAction(seconds + rng.uniform(0, 30), "submit", name, body(rng, name)))
    return [action for action in actions if action.seconds < CHAOS_SECONDS]


def _ample_body(rng: Random, name: str) -> dict[str, Any]:
    return workload(name, shared=happens(rng, 0.5), memory=rng.choice(("8Gi", "20Gi")))


def _mixed_body(rng: Random, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if happens(rng, 0.2):
        spec["role"] = "sampler"
    if happens(rng, 0.5):
        spec["ownerID"] = rng.choice(("a", "b", "c"))
    devices = rng.choice((2, 2, 4)) if happens(rng, 0.1) else 0
    memory = "0" if happens(rng, 0.03) else rng.choice(NEEDS)
    body = workload(name, shared=happens(rng, 0.7), memory=memory, devices=devices, **spec)
    host = rng.choice(("1Gi", "4Gi", "16Gi"))
    body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = host
    return body
