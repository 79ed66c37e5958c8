"""The controller's Deployment: keeps its replicas running, as kubelets and a rolling update do.

Each replica is the production composition in a process of its own (`simulation.engine.process`), with its own
connections, clocks, chance and identifiers. One that ends (killed, its lease lost, told to stop) is started
again after a while, under a new name and with an empty memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
from anyio.abc import TaskGroup

from controller.config.nondeterminism import Nondeterminism
from controller.config.settings import Settings
from controller.controller import Controller
from controller.main import operate
from controller.runtime.leadership import Leadership
from informers.leader.election import LeadershipLost
from simulation.apiserver.client import ApiClient
from simulation.cluster.controller_process import compose
from simulation.cluster.network import Link, Network
from simulation.cluster.simulated import CONTROLLER_NAMESPACE, SimulatedCluster
from simulation.engine.process import VirtualProcess, inside
from simulation.engine.random_streams import Streams
from simulation.engine.trace import Trace
from simulation.engine.virtual_loop import VirtualLoop
from simulation.engine.wall_clock import EPOCH

GRACE_SECONDS = 40.0
"""How long a replica may take to stop before it is killed: the manifest's grace period, about."""

IN_CLUSTER = {"service_host": "10.96.0.1", "pod_namespace": CONTROLLER_NAMESPACE}
"""What the environment of a Pod tells the program, beside its name; the leader lease goes by it."""

LEASE_SUFFIX = "/lease"
"""What the name of a process' second client ends with: the one that its elector uses."""


class ProcessClock:
    """The wall clock of one process: its own monotonic time, plus an offset that may jump."""

    def __init__(self, offset_seconds: float) -> None:
        self._offset_seconds = offset_seconds

    def __call__(self) -> datetime:
        """The time of day, in UTC."""
        return EPOCH + timedelta(seconds=anyio.current_time() + self._offset_seconds)

    def jump(self, seconds: float) -> None:
        """Step on, or back if negative."""
        self._offset_seconds += seconds


@dataclass
class Replica:
    """One process that runs the controller."""

    slot: str
    process: VirtualProcess
    link: Link
    clients: tuple[ApiClient, ApiClient]
    clock: ProcessClock
    settings: Settings
    controller: Controller
    leadership: Leadership
    stop: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def __repr__(self) -> str:
        return f"<Replica {self.process!r} leading={self.leadership.leading}>"

    @property
    def runs(self) -> bool:
        """Whether it was started and neither ended nor was killed."""
        return self.process.alive and not self.ended.is_set()


@dataclass
class ReplicaContext:
    """What every replica is connected to."""

    cluster: SimulatedCluster
    loop: VirtualLoop
    network: Network
    streams: Streams
    trace: Trace
    tasks: TaskGroup
    rate_part: float = 0.0
    """Monotonic clocks go wrong by up to this part."""
    failures: list[str] = field(default_factory=list)
    """What ended a process although nothing ever should."""
    on_kill: Callable[[], None] = lambda: None
    """Told just before a process is killed."""


class Deployment:
    """Replicas `name-0`, `name-1`, ... and their successors."""

    def __init__(self, around: ReplicaContext, name: str, settings: Settings, *, replicas: int) -> None:
        self._around = around
        self._name = name
        self._rng = around.streams.stream(f"deployment {name}")
        self._incarnations = 0
        self._closed = False
        self.settings = settings
        self.slots: dict[str, Replica | None] = {f"{name}-{number}": None for number in range(replicas)}
        self.all: list[Replica] = []
        """Every one that was ever started: kept, so that nothing of them is collected during a run."""

    def __repr__(self) -> str:
        return f"<Deployment {self._name} {list(self.slots.values())}>"

    def running(self) -> list[Replica]:
        """The replicas that run, frozen ones included."""
        return [replica for replica in self.slots.values() if replica is not None and replica.runs]

    # Starting.

    def start(self) -> None:
        """Start every replica."""
        for slot in self.slots:
            self._start(slot)

    def _start(self, slot: str) -> None:
        if self._closed:
            return
        around = self._around
        self._incarnations += 1
        name = f"{slot}.{self._incarnations}"
        rng = around.streams.stream(f"process {name}")
        rate = 1.0 + rng.uniform(-1, 1) * around.rate_part if around.rate_part else 1.0
        process = VirtualProcess(name, rate=rate)
        settings = self.settings.model_copy(update={"pod_name": name, **IN_CLUSTER})
        replica = self._compose(slot, process, settings)
        self.slots[slot] = replica
        self.all.append(replica)
        around.trace.add(name, "start", "process", slot, f"limit {settings.max_seats_per_claim}")
        with inside(process):
            around.tasks.start_soon(self._run, replica, name=name)

    def _compose(self, slot: str, process: VirtualProcess, settings: Settings) -> Replica:
        around, name = self._around, process.name
        link = Link(
            around.network, name, around.streams.stream(f"network {name}"), lambda: self.kill(replica)
        )
        client, lease_client = (
            around.cluster.client(identity, interceptor=link, latency_seconds=None)
            for identity in (name, name + LEASE_SUFFIX)
        )
        rng = around.streams.stream(f"process {name}")
        clock = ProcessClock(rng.uniform(-1, 1))
        identifiers = around.streams.identifiers(name)
        with inside(process):
            controller, leadership = compose(
                client, lease_client, settings, Nondeterminism(rng, clock, identifiers)
            )
        clients = (client, lease_client)
        replica = Replica(slot, process, link, clients, clock, settings, controller, leadership)
        return replica

    async def _run(self, replica: Replica) -> None:
        how = "stopped"
        try:
            with replica.scope:
                await operate(replica.controller, replica.leadership, replica.stop)
        except* LeadershipLost:
            how = "lost its lease"
        except* Exception as errors:  # noqa: BLE001 - whatever it is, it ended a process: a failure of the run
            how = "failed"
            self._around.failures += [f"{replica.process.name}: {error!r}" for error in errors.exceptions]
        finally:
            replica.ended.set()
        self._around.trace.add(replica.process.name, "end", "process", replica.slot, how)
        with inside(None):
            self._restart_later(replica)

    def _restart_later(self, replica: Replica) -> None:
        self._forget(replica)
        if self.slots.get(replica.slot) is replica:
            seconds = self._rng.uniform(0.5, 10.0)
            self._around.loop.call_later(
                seconds, self._start, replica.slot, context=self._around.network.context
            )

    def _forget(self, replica: Replica) -> None:
        for client in replica.clients:
            self._around.cluster.watches.drop(client.identity)

    # Ending.

    def kill(self, replica: Replica) -> None:
        """End it as SIGKILL does: none of its code runs any more, not even clean-up."""
        if not replica.runs:
            return
        self._around.on_kill()
        self._around.loop.kill(replica.process)
        replica.link.cut = True
        for client in replica.clients:
            client.crash()
        self._around.trace.add(replica.process.name, "kill", "process", replica.slot)
        self._restart_later(replica)

    async def stop(self, replica: Replica) -> None:
        """End it as SIGTERM does, and as SIGKILL if that takes too long."""
        self._around.trace.add(replica.process.name, "terminate", "process", replica.slot)
        replica.stop.set()
        with anyio.move_on_after(GRACE_SECONDS):
            await replica.ended.wait()
        if not replica.ended.is_set():
            self.kill(replica)

    async def roll(self) -> None:
        """Replace all replicas, one after the other, by those of the present settings."""
        for replica in self.running():
            await self.stop(replica)
            await anyio.sleep(self._rng.uniform(1, 20))

    async def close(self) -> None:
        """Stop all replicas for good."""
        self._closed = True
        for replica in self.running():
            await self.stop(replica)

    def bury(self) -> None:
        """The run is over: let what the dead hold be cancelled."""
        self._closed = True
        for replica in self.all:
            if not replica.process.alive:
                self._around.loop.bury(replica.process)
                replica.scope.cancel()
