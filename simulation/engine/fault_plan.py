"""The faults of a run and their severity, drawn once from the seed before the run starts.

This is swarm testing: each fault is on or off, so most runs have few faults and some have an extreme one.
Every fault draws from its own stream, so disabling one leaves the others unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random

from simulation.engine.random_streams import Streams

Parameters = Mapping[str, float]


@dataclass(frozen=True)
class Fault:
    """A kind of fault: its description, the probability that a run has it, and its parameters."""

    description: str
    probability: float
    draw: Callable[[Random], Parameters]


def _rate(low: float, high: float) -> Callable[[Random], Parameters]:
    """Draw the share of affected calls, log-uniform over the range."""
    return lambda rng: {"rate": low * (high / low) ** rng.random()}


def _every(
    low_seconds: float, high_seconds: float, **more: tuple[float, float]
) -> Callable[[Random], Parameters]:
    """Draw the mean seconds between two occurrences (log-uniform), and further parameters (uniform)."""

    def draw(rng: Random) -> Parameters:
        drawn = {"mean_seconds": low_seconds * (high_seconds / low_seconds) ** rng.random()}
        return drawn | {name: rng.uniform(*bounds) for name, bounds in more.items()}

    return draw


def _latency(rng: Random) -> Parameters:
    return {
        "median_seconds": 0.002 * 30 ** rng.random(),
        "sigma": rng.uniform(0.3, 1.2),
        "long_rate": rng.choice((0.0, 0.002, 0.02)),
        "long_seconds": rng.choice((0.5, 3.0, 20.0)),
    }


FAULTS: Mapping[str, Fault] = {
    "latency": Fault("calls are slow, some very slow", 0.7, _latency),
    "error-bursts": Fault(
        "for a while, calls fail with 429, 500, 503 or 504",
        0.35,
        _every(60, 400, lasts_seconds=(2, 40), share=(0.2, 1.0)),
    ),
    "lost-answers": Fault("a call takes effect and its answer is lost", 0.4, _rate(0.002, 0.1)),
    "lost-requests": Fault("a call is lost on the way or times out without effect", 0.35, _rate(0.002, 0.1)),
    "late-writes": Fault(
        "a write takes effect long after its sender gave up",
        0.3,
        lambda rng: {**_rate(0.002, 0.05)(rng), "seconds": rng.choice((1.0, 20.0, 90.0))},
    ),
    "rogue-writes": Fault(
        "another client changes an object just before a write to it", 0.35, _rate(0.005, 0.2)
    ),
    "silent-watches": Fault("a watch stops delivering events", 0.3, _every(60, 600)),
    "cut-watches": Fault("the connection of a watch breaks", 0.35, _every(20, 400)),
    "expired-watches": Fault("history is compacted and watches end with 410", 0.35, _every(60, 600)),
    "starved-bookmarks": Fault("servers send no bookmarks", 0.25, lambda _rng: {}),
    "lagging-replicas": Fault(
        "several API servers, each with a watch cache that lags",
        0.45,
        lambda rng: {
            "replicas": rng.choice((2, 3)),
            "lag_seconds": 0.01 * 50 ** rng.random(),
            "stuck_rate": rng.choice((0.0, 0.005, 0.03)),
            "stuck_seconds": rng.uniform(1, 30),
        },
    ),
    "crashes": Fault("a controller is killed during a request or at any other time", 0.45, _every(60, 700)),
    "blind-standbys": Fault(
        "a standby receives no events and then has to take over",
        0.25,
        _every(120, 600, blind_seconds=(1, 60)),
    ),
    "pauses": Fault("a controller is frozen, sometimes for longer than its lease", 0.3, _every(120, 900)),
    "clock-jumps": Fault("the wall clock of a controller jumps", 0.25, _every(120, 900)),
    "clock-rates": Fault(
        "the monotonic clocks of controllers run at different rates",
        0.25,
        lambda rng: {"max_drift": rng.uniform(0.001, 0.05)},
    ),
    "partitions": Fault(
        "a controller is cut off from the API server", 0.3, _every(100, 900, lasts_seconds=(3, 120))
    ),
    "rival": Fault(
        "a second controller without leader election runs for a while",
        0.2,
        lambda rng: {"from_seconds": rng.uniform(0, 900), "lasts_seconds": rng.uniform(30, 600)},
    ),
    "rolling-updates": Fault("the controllers are replaced one by one", 0.25, _every(200, 900)),
    "limit-changes": Fault("an update changes the seat limit", 0.2, _every(300, 1200)),
    "hand-edits": Fault(
        "somebody removes a seat, ledger, claim, labels or Pod, or force-deletes a Workload",
        0.3,
        _every(40, 400),
    ),
    "node-loss": Fault("a node disappears and comes back", 0.3, _every(120, 900, lasts_seconds=(5, 400))),
    "cordons": Fault(
        "a node is cordoned, tainted or drained for a while", 0.3, _every(100, 900, lasts_seconds=(5, 400))
    ),
    "withdrawn-devices": Fault(
        "the devices of a node are withdrawn for a while", 0.25, _every(120, 900, lasts_seconds=(5, 300))
    ),
    "disrupted-pods": Fault("a kubelet evicts, rejects or does not start a Pod", 0.3, _every(40, 400)),
    "lost-namespace": Fault(
        "the workers' namespace is deleted, then recreated with its Workloads",
        0.12,
        _every(200, 1200, lasts_seconds=(1, 120)),
    ),
    "lost-class": Fault(
        "the DeviceClass is missing for a while", 0.1, _every(300, 1500, lasts_seconds=(5, 120))
    ),
    "refused-creations": Fault(
        "policies, webhooks or quotas refuse Pods, claims or ledgers for a while",
        0.25,
        _every(150, 900, lasts_seconds=(5, 300)),
    ),
    "changed-pods": Fault(
        "admission changes new Pods for a while: requests, tolerations, containers",
        0.25,
        _every(100, 600, lasts_seconds=(30, 600)),
    ),
    "hidden-needs": Fault(
        "new Pods need a host port, disk space or anti-affinity that no template shows",
        0.2,
        _every(150, 900, lasts_seconds=(30, 400)),
    ),
    "gated-pods": Fault(
        "new Pods are gated, or name a scheduler that does not run yet",
        0.2,
        _every(200, 900, lasts_seconds=(5, 200)),
    ),
    "held-pods": Fault(
        "a stranger's finalizer keeps deleted Pods for some seconds",
        0.2,
        _every(150, 900, lasts_seconds=(60, 600)),
    ),
    "tainted-devices": Fault(
        "devices of a node are tainted for a while, mostly with an effect that evicts",
        0.25,
        _every(150, 900, lasts_seconds=(5, 400)),
    ),
    "evictions": Fault(
        "a Pod is evicted, preempted or deleted by another component, or fails through its own fault",
        0.3,
        _every(40, 400),
    ),
    "foreign-pods": Fault(
        "a Pod of another namespace names a Workload as its owner, or is nested too deeply to be read",
        0.2,
        _every(100, 600, lasts_seconds=(5, 400)),
    ),
}
"""All faults, by name."""


@dataclass(frozen=True)
class FaultPlan:
    """The faults of one run that are on, with their parameters."""

    faults: Mapping[str, Parameters]

    def __str__(self) -> str:
        return "; ".join(_described(name, parameters) for name, parameters in self.faults.items()) or "none"

    def parameters(self, name: str) -> Parameters | None:
        """Return the parameters of a fault, `None` if it is off."""
        return self.faults.get(name)

    def value(self, name: str, parameter: str) -> float:
        """Return one parameter of a fault, 0 if the fault is off."""
        return self.faults.get(name, {}).get(parameter, 0.0)


def draw_plan(streams: Streams, *, without: Collection[str] = ()) -> FaultPlan:
    """Draw the plan of a seed; faults in `without` are off, whatever was drawn."""
    drawn: dict[str, Parameters] = {}
    for name, fault in FAULTS.items():
        rng = streams.get(f"plan/{name}")
        on, parameters = rng.random() < fault.probability, fault.draw(rng)
        if on and name not in without:
            drawn[name] = parameters
    return FaultPlan(drawn)


def _described(name: str, parameters: Parameters) -> str:
    values = ", ".join(f"{key} {value:.3g}" for key, value in parameters.items())
    return f"{name} ({values})" if values else name
