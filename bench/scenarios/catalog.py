"""All scenarios, in the order in which they run."""

from __future__ import annotations

from typing import Final

from bench.contender import Contender, ContenderInfo
from bench.scenarios.base import Scenario
from bench.scenarios.decision import Decision
from bench.scenarios.drain import Drain
from bench.scenarios.handoff import SEATS_PER_GPU, HandOffs
from bench.scenarios.informers import Bursts, Held, InformerScenario, ProgramMemory, Queue, Relists, Sync
from bench.scenarios.late import LatePlacement
from bench.scenarios.placement import Placement
from bench.scenarios.rest import AtRest

FEW, MANY = 4, 16
"""Concurrent reconciles or writers: the default, and four times the default."""

CONTROLLER = Contender(ContenderInfo.CONTROLLER, FEW)
BARE_WRITER = Contender(ContenderInfo.BARE_WRITER, FEW)
BOTH_WITH_BOTH = tuple(Contender(kind, workers) for workers in (FEW, MANY) for kind in ContenderInfo)

DECISION: Final = Decision(
    name="decision",
    title="Select a seat and explain a wait with 100, 1,000 and 10,000 claims, without a cluster",
    claims=(100, 1_000, 10_000),
    batches=30,
)

INFORMERS: Final[tuple[InformerScenario, ...]] = (
    Sync(
        name="informers-sync",
        title="First list of 20,000 Pods, compared with typed models and plain JSON, without a cluster",
        pods=20_000,
        rounds=3,
    ),
    Held(name="informers-held", title="Memory per foreign Pod, with 20,000 Pods", pods=20_000),
    ProgramMemory(
        name="informers-memory",
        title="Memory of the controller with 100,000 foreign Pods and two relists",
        pods=100_000,
        relists=2,
    ),
    Relists(
        name="informers-relist",
        title="Event loop stalls by relists of 100,000 Pods",
        pods=100_000,
        rounds=3,
    ),
    Bursts(
        name="informers-events",
        title="100,000 changes in one watch",
        pods=20_000,
        events=100_000,
        rounds=3,
    ),
    Queue(
        name="informers-queue",
        title="200,000 work queue cycles, with 0 and 10,000 delayed keys",
        pods=200_000,
        delayed=(0, 10_000),
        rounds=5,
    ),
)

INFORMER_GROUP: Final = "informers"
"""Name of this group on the command line."""

INFORMER_NAMES: Final = tuple(scenario.name for scenario in INFORMERS)

WARM_UP: Final = Placement(
    name="warm-up",
    title="A few placements to warm up the control plane",
    contenders=(CONTROLLER,),
    workers=8,
    nodes=2,
)

ON_CLUSTER: Final[tuple[Scenario, ...]] = (
    Placement(
        name="dedicated-100",
        title="100 dedicated workers at once on 25 nodes with 4 GPUs",
        contenders=BOTH_WITH_BOTH,
        rounds=3,
        workers=100,
        nodes=25,
    ),
    Placement(
        name="dedicated-400",
        title="400 dedicated workers at once on 100 nodes with 4 GPUs",
        contenders=BOTH_WITH_BOTH,
        rounds=3,
        workers=400,
        nodes=100,
    ),
    Placement(
        name="shared-40",
        title="40 workers at once that share 20 GPUs, at most 2 per GPU",
        contenders=(CONTROLLER,),
        rounds=3,
        workers=40,
        nodes=5,
        seats_per_gpu=SEATS_PER_GPU,
    ),
    HandOffs(
        name="hand-off-8",
        title="200 hand-offs while 8 workers wait",
        contenders=(CONTROLLER,),
        waiters=8,
        hand_offs=200,
    ),
    HandOffs(
        name="hand-off-500",
        title="200 hand-offs while 500 workers wait",
        contenders=(CONTROLLER,),
        waiters=500,
        hand_offs=200,
    ),
    LatePlacement(
        name="late",
        title="One worker at a time on a fleet with 400 placed workers, compared with an empty fleet",
        contenders=(CONTROLLER, BARE_WRITER),
        placed=400,
        samples=10,
    ),
    Drain(
        name="drain",
        title="10 nodes drained one after the other, on a fleet with free GPUs",
        contenders=(CONTROLLER,),
        workers=40,
        nodes=13,
        drains=10,
    ),
    AtRest(
        name="at-rest",
        title="60 s without changes while 400 workers run",
        contenders=(CONTROLLER,),
        placed=400,
        measured_seconds=60,
    ),
)

TITLES: Final = {
    DECISION.name: DECISION.title,
    **{scenario.name: scenario.title for scenario in INFORMERS},
    **{scenario.name: scenario.title for scenario in ON_CLUSTER},
}
