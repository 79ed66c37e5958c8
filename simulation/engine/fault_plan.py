"""Which faults a run has, and how bad each is: drawn once from the seed, before anything happens.

Swarm testing: each fault is on or off, so that most runs have few of them, and some have one that is extreme.
Every fault draws from a stream of its own: switching one off leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random

from simulation.engine.random_streams import Streams

Parameters = Mapping[str, float]


@dataclass(frozen=True)
class Fault:
    """One kind of fault: what happens, how probable it is that a run has it, and its parameters."""

    what: str
    probability: float
    draw: Callable[[Random], Parameters]


def _rate(low: float, high: float) -> Callable[[Random], Parameters]:
    """A share of the calls, from a range over which orders of magnitude are equally probable."""
    return lambda rng: {"rate": low * (high / low) ** rng.random()}


def _every(
    low_seconds: float, high_seconds: float, **more: tuple[float, float]
) -> Callable[[Random], Parameters]:
    """Mean seconds between two of them, and further parameters from their ranges."""

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
    "latency": Fault("calls take long, some very long", 0.7, _latency),
    "error-bursts": Fault(
        "for a while, calls are answered with 429, 500, 503 or 504",
        0.35,
        _every(60, 400, lasts_seconds=(2, 40), share=(0.2, 1.0)),
    ),
    "lost-answers": Fault("a call is carried out and its answer lost", 0.4, _rate(0.002, 0.1)),
    "lost-requests": Fault("a call is lost on its way, or times out unapplied", 0.35, _rate(0.002, 0.1)),
    "late-writes": Fault(
        "a write is carried out long after its sender gave up",
        0.3,
        lambda rng: {**_rate(0.002, 0.05)(rng), "seconds": rng.choice((1.0, 20.0, 90.0))},
    ),
    "rogue-writes": Fault("somebody changes an object just before a write to it", 0.35, _rate(0.005, 0.2)),
    "silent-watches": Fault("a watch says nothing any more", 0.3, _every(60, 600)),
    "cut-watches": Fault("the connection of a watch breaks", 0.35, _every(20, 400)),
    "expired-watches": Fault("history is compacted and watches end: 410", 0.35, _every(60, 600)),
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
    "crashes": Fault("a controller dies at a request or at any moment", 0.45, _every(60, 700)),
    "blind-standbys": Fault(
        "a standby does not hear what happens, and has to take over",
        0.25,
        _every(120, 600, blind_seconds=(1, 60)),
    ),
    "pauses": Fault("a controller is frozen, perhaps for longer than its lease", 0.3, _every(120, 900)),
    "clock-jumps": Fault("the wall clock of a controller jumps", 0.25, _every(120, 900)),
    "clock-rates": Fault(
        "the monotonic clocks of controllers go at different rates",
        0.25,
        lambda rng: {"part": rng.uniform(0.001, 0.05)},
    ),
    "partitions": Fault(
        "a controller is cut off from the API server", 0.3, _every(100, 900, lasts_seconds=(3, 120))
    ),
    "rival": Fault(
        "a second controller without leader election works for a while",
        0.2,
        lambda rng: {"from_seconds": rng.uniform(0, 900), "lasts_seconds": rng.uniform(30, 600)},
    ),
    "rolling-updates": Fault("the controllers are replaced in order, one by one", 0.25, _every(200, 900)),
    "limit-changes": Fault("an update changes the limit of seats", 0.2, _every(300, 1200)),
    "hand-edits": Fault(
        "somebody removes a seat, a ledger, a claim, labels, a Pod, or a Workload by force",
        0.3,
        _every(40, 400),
    ),
    "node-loss": Fault("a node goes and comes back", 0.3, _every(120, 900, lasts_seconds=(5, 400))),
    "cordons": Fault(
        "a node is cordoned, tainted or drained for a while", 0.3, _every(100, 900, lasts_seconds=(5, 400))
    ),
    "withdrawn-devices": Fault(
        "the devices of a node are withdrawn for a while", 0.25, _every(120, 900, lasts_seconds=(5, 300))
    ),
    "disrupted-pods": Fault("a kubelet evicts, rejects or does not start a Pod", 0.3, _every(40, 400)),
    "lost-namespace": Fault(
        "the workers' namespace is deleted, and made again with the Workloads that were in it",
        0.12,
        _every(200, 1200, lasts_seconds=(1, 120)),
    ),
    "lost-class": Fault(
        "the DeviceClass is missing for a while", 0.1, _every(300, 1500, lasts_seconds=(5, 120))
    ),
}
"""All faults by name."""


@dataclass(frozen=True)
class FaultPlan:
    """The faults of one run: those that are on, with their parameters."""

    drawn: Mapping[str, Parameters]

    def __str__(self) -> str:
        return "; ".join(_described(name, parameters) for name, parameters in self.drawn.items()) or "none"

    def of(self, name: str) -> Parameters | None:
        """The parameters of a fault, `None` if it is off."""
        return self.drawn.get(name)

    def value(self, name: str, parameter: str) -> float:
        """A parameter of a fault, 0 if it is off."""
        return self.drawn.get(name, {}).get(parameter, 0.0)


def draw_plan(streams: Streams, *, without: Collection[str] = ()) -> FaultPlan:
    """The plan of a seed; faults in `without` are off, whatever was drawn."""
    drawn: dict[str, Parameters] = {}
    for name, fault in FAULTS.items():
        rng = streams.stream(f"plan/{name}")
        on, parameters = rng.random() < fault.probability, fault.draw(rng)
        if on and name not in without:
            drawn[name] = parameters
    return FaultPlan(drawn)


def _described(name: str, parameters: Parameters) -> str:
    values = ", ".join(f"{key} {value:.3g}" for key, value in parameters.items())
    return f"{name} ({values})" if values else name
