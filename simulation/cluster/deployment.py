"""The controller's Deployment: keeps its replicas running, as kubelets and rolling updates do.

Each replica is the production composition in its own simulated process (`simulation.engine.process`), with
its own connections, clocks, randomness and identifiers. A replica that ends (killed, lost lease, stopped) is
restarted after a delay, under a new name and with empty memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
from anyio.abc import TaskGroup

from controller.config.flags import Settings
from controller.config.nondeterminism import Nondeterminism
from controller.controller import Controller
from controller.main import operate
from controller.runtime.leadership import Leadership
from informers.leader.election import LeadershipLost
from simulation.apiserver.client import ApiClient
from simulation.cluster.controller_process import compose
from simulation.cluster.network import Link, Network
from simulation.cluster.simulated_cluster import CONTROLLER_NAMESPACE, SimulatedCluster
from simulation.engine.process import VirtualProcess, in_process
from simulation.engine.random_streams import Streams
from simulation.engine.trace import Trace
from simulation.engine.virtual_loop import VirtualLoop
from simulation.engine.wall_clock import EPOCH

GRACE_SECONDS = 40.0
"""How long a replica may take to stop before it is killed: roughly the manifest's grace period."""

IN_CLUSTER = {"service_host": "10.96.0.1", "pod_namespace": CONTROLLER_NAMESPACE}
"""Settings that a Pod's environment provides besides its name; they locate the leader lease."""

LEASE_SUFFIX = "/lease"
"""The suffix of a process's second client, which its elector uses."""


class ProcessClock:
    """The wall clock of one process: its own monotonic time plus an offset that can jump."""

    def __init__(self, offset_seconds: float) -> None:
        self._offset_seconds = offset_seconds

    def __call__(self) -> datetime:
        """Return the time of day, in UTC."""
        return EPOCH + timedelta(seconds=anyio.current_time() + self._offset_seconds)

    def jump(self, seconds: float) -> None:
        """Move the clock forward, or back if negative."""
        self._offset_seconds += seconds


@dataclass
class Replica:
    """A process that runs the controller."""

    slot: str
    process: VirtualProcess
    link: Link
    clients: tuple[ApiClient, ApiClient]
    clock: ProcessClock
    settings: Settings
    controller: Controller
    leadership: Leadership
    stop_requested: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def __repr__(self) -> str:
        return f"<Replica {self.process!r} leading={self.leadership.leading}>"

    @property
    def is_running(self) -> bool:
        """Whether the replica has neither ended nor been killed."""
        return self.process.is_alive and not self.ended.is_set()


@dataclass
class ReplicaContext:
    """What all replicas of a run share."""

    cluster: SimulatedCluster
    loop: VirtualLoop
    network: Network
    streams: Streams
    trace: Trace
    tasks: TaskGroup
    max_drift: float = 0.0
    """The maximum relative error of monotonic clocks."""
    failures: list[str] = field(default_factory=list)
    """Unexpected errors that ended a process."""
    on_kill: Callable[[], None] = lambda: None
    """Called just before a process is killed."""


class Deployment:
    """The replicas `name-0`, `name-1`, ... and their successors."""

    def __init__(self, context: ReplicaContext, name: str, settings: Settings, *, replicas: int) -> None:
        self._context = context
        self._name = name
        self._rng = context.streams.get(f"deployment {name}")
        self._starts_total = 0
        self._is_closed = False
        self.settings = settings
        self.slots: dict[str, Replica | None] = {f"{name}-{number}": None for number in range(replicas)}
        self.all_replicas: list[Replica] = []
        """Every replica ever started; the references prevent garbage collection during a run."""

    def __repr__(self) -> str:
        return f"<Deployment {self._name} {list(self.slots.values())}>"

    def running(self) -> list[Replica]:
        """Return the running replicas, including frozen ones."""
        return [replica for replica in self.slots.values() if replica is not None and replica.is_running]

    # Starting.

    def start(self) -> None:
        """Start every replica."""
        for slot in self.slots:
            self._start(slot)

    def _start(self, slot: str) -> None:
        if self._is_closed:
            return
        context = self._context
        self._starts_total += 1
        name = f"{slot}.{self._starts_total}"
        rng = context.streams.get(f"process {name}")
        rate = 1.0 + rng.uniform(-1, 1) * context.max_drift if context.max_drift else 1.0
        process = VirtualProcess(name, rate=rate)
        settings = self.settings.model_copy(update={"pod_name": name, **IN_CLUSTER})
        replica = self._compose(slot, process, settings)
        self.slots[slot] = replica
        self.all_replicas.append(replica)
        context.trace.add(name, "start", "process", slot, f"limit {settings.max_seats_per_claim}")
        with in_process(process):
            context.tasks.start_soon(self._run, replica, name=name)

    def _compose(self, slot: str, process: VirtualProcess, settings: Settings) -> Replica:
        context, name = self._context, process.name
        link = Link(context.network, name, context.streams.get(f"network {name}"), lambda: self.kill(replica))
        client, lease_client = (
            context.cluster.client(identity, interceptor=link, latency_seconds=None)
            for identity in (name, name + LEASE_SUFFIX)
        )
        rng = context.streams.get(f"process {name}")
        clock = ProcessClock(rng.uniform(-1, 1))
        identifiers = context.streams.identifiers(name)
        with in_process(process):
            controller, leadership = compose(
                client, lease_client, settings, Nondeterminism(rng, clock, identifiers)
            )
        clients = (client, lease_client)
        replica = Replica(slot, process, link, clients, clock, settings, controller, leadership)
        return replica

    async def _run(self, replica: Replica) -> None:
        outcome = "stopped"
        try:
            with replica.scope:
                await operate(replica.controller, replica.leadership, replica.stop_requested)
        except* LeadershipLost:
            outcome = "lost its lease"
        except* Exception as errors:  # noqa: BLE001 - any error that ends a process fails the run
            outcome = "failed"
            self._context.failures += [f"{replica.process.name}: {error!r}" for error in errors.exceptions]
        finally:
            replica.ended.set()
        self._context.trace.add(replica.process.name, "end", "process", replica.slot, outcome)
        with in_process(None):
            self._restart_later(replica)

    def _restart_later(self, replica: Replica) -> None:
        for client in replica.clients:
            self._context.cluster.watches.drop(client.identity)
        if self.slots.get(replica.slot) is replica:
            seconds = self._rng.uniform(0.5, 10.0)
            self._context.loop.call_later(
                seconds, self._start, replica.slot, context=self._context.network.context
            )

    # Ending.

    def kill(self, replica: Replica) -> None:
        """End a replica as SIGKILL does: none of its code runs again, not even clean-up."""
        if not replica.is_running:
            return
        self._context.on_kill()
        self._context.loop.kill(replica.process)
        replica.link.is_cut = True
        for client in replica.clients:
            client.crash()
        self._context.trace.add(replica.process.name, "kill", "process", replica.slot)
        self._restart_later(replica)

    async def stop(self, replica: Replica) -> None:
        """End a replica as SIGTERM does, and as SIGKILL after the grace period."""
        self._context.trace.add(replica.process.name, "terminate", "process", replica.slot)
        replica.stop_requested.set()
        with anyio.move_on_after(GRACE_SECONDS):
            await replica.ended.wait()
        if not replica.ended.is_set():
            self.kill(replica)

    async def roll(self) -> None:
        """Replace all replicas one by one with replicas that have the current settings."""
        for replica in self.running():
            await self.stop(replica)
            await anyio.sleep(self._rng.uniform(1, 20))

    async def close(self) -> None:
        """Stop all replicas for good."""
        self._is_closed = True
        for replica in self.running():
            await self.stop(replica)

    def release_killed(self) -> None:
        """Allow the tasks of killed replicas to be cancelled, once the run is over."""
        self._is_closed = True
        for replica in self.all_replicas:
            if not replica.process.is_alive:
                self._context.loop.release(replica.process)
                replica.scope.cancel()
