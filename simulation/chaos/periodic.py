"""The faults that come by themselves, each from a task of its own, at times and in forms that are drawn.

What a fault did that has to be undone is undone by the same task, at the latest when faults stop. Faults of
single calls are in `simulation.cluster.network`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random

import anyio
from anyio.abc import TaskGroup

from simulation.chaos.external import ExternalActors
from simulation.chaos.scenario import Scenario
from simulation.checks.coverage import CoveragePoints
from simulation.cluster.deployment import Deployment, Replica, ReplicaContext
from simulation.engine.fault_plan import FaultPlan, Parameters
from simulation.engine.random_streams import happens

Disturb = Callable[[Random, Parameters], Awaitable[None]]


class PeriodicFaults:
    """All periodic faults of one run."""

    def __init__(
        self,
        around: ReplicaContext,
        *,
        plan: FaultPlan,
        scenario: Scenario,
        deployment: Deployment,
        hands: ExternalActors,
        sometimes: CoveragePoints,
    ) -> None:
        self._around = around
        self._plan = plan
        self._scenario = scenario
        self._deployment = deployment
        self._hands = hands
        self._sometimes = sometimes
        self._calm = anyio.Event()

    def __repr__(self) -> str:
        return f"<Disturbances calm={self._calm.is_set()}>"

    def start(self, tasks: TaskGroup) -> None:
        """Begin with every fault that is on."""
        table: Mapping[str, Disturb] = {
            "error-bursts": self._burst,
            "silent-watches": self._silence,
            "cut-watches": self._cut,
            "expired-watches": self._expire,
            "crashes": self._crash,
            "blind-standbys": self._blind,
            "pauses": self._pause,
            "clock-jumps": self._jump,
            "partitions": self._partition,
            "rolling-updates": self._roll,
            "limit-changes": self._change_limit,
            "hand-edits": self._edit,
            "node-loss": self._lose_node,
            "cordons": self._cordon,
            "withdrawn-devices": self._withdraw,
            "disrupted-pods": self._disrupt,
            "lost-namespace": self._lose_namespace,
            "lost-class": self._lose_class,
        }
        for name, disturb in table.items():
            parameters = self._plan.of(name)
            if parameters is not None:
                tasks.start_soon(self._repeat, name, disturb, parameters)
        rival = self._plan.of("rival")
        if rival is not None:
            tasks.start_soon(self._rival, rival)

    def stop(self) -> None:
        """No new faults; those that last are ended."""
        self._calm.set()

    async def _repeat(self, name: str, disturb: Disturb, parameters: Parameters) -> None:
        rng = self._around.streams.stream(f"fault {name}")
        while await self._pass(rng.expovariate(1 / parameters["mean_seconds"])):
            await disturb(rng, parameters)

    async def _pass(self, seconds: float) -> bool:
        """Wait; false, at once, when faults stop."""
        with anyio.move_on_after(seconds):
            await self._calm.wait()
        return not self._calm.is_set()

    def _note(self, verb: str, name: str, outcome: str = "") -> None:
        self._around.trace.add("fault", verb, "", name, outcome)

    def _some_replica(self, rng: Random) -> Replica | None:
        running = self._deployment.running()
        return rng.choice(running) if running else None

    # Calls and watches.

    async def _burst(self, rng: Random, parameters: Parameters) -> None:
        self._note("burst", "api server")
        self._around.network.burst_share = parameters["share"]
        await self._pass(rng.expovariate(1 / parameters["lasts_seconds"]))
        self._around.network.burst_share = 0.0

    async def _silence(self, rng: Random, _parameters: Parameters) -> None:
        self._on_some_watches(rng, "silence")

    async def _cut(self, rng: Random, _parameters: Parameters) -> None:
        self._on_some_watches(rng, "cut" if happens(rng, 0.7) else "end")

    def _on_some_watches(self, rng: Random, what: str) -> None:
        watches = self._around.cluster.watches.matching()
        if not watches:
            return
        chosen = watches if happens(rng, 0.2) else [rng.choice(watches)]
        for watch in chosen:
            self._note(what, f"{watch.client} {watch.kind}")
            {"silence": watch.silence, "cut": watch.cut, "end": watch.end}[what]()

    async def _expire(self, rng: Random, _parameters: Parameters) -> None:
        store = self._around.cluster.server.store
        self._note("compact", "etcd", str(store.revision))
        store.compact(store.revision - rng.choice((0, 0, 5, 50)))
        if happens(rng, 0.7):
            self._on_some_watches(rng, "cut")

    # Controllers.

    async def _crash(self, rng: Random, _parameters: Parameters) -> None:
        replica = self._some_replica(rng)
        if replica is None:
            return
        moment = rng.choice(("now", "before", "after", "before", "after"))
        if moment == "now":
            self._deployment.kill(replica)
        else:
            replica.link.dies_at_next = moment

    async def _blind(self, rng: Random, parameters: Parameters) -> None:
        """Caches that are behind, each for itself, are what the first decisions of a leader are made on."""
        running = self._deployment.running()
        leader = next((each for each in running if each.leadership.leading), None)
        standby = next((each for each in running if not each.leadership.leading), None)
        if leader is None or standby is None:
            return
        self._note("blind", standby.process.name)
        for client in standby.clients:
            for watch in self._around.cluster.watches.matching(client.identity):
                if happens(rng, 0.5):
                    watch.silence()
        if not await self._pass(rng.random() * parameters["blind_seconds"]) or not leader.runs:
            return
        if happens(rng, 0.5):
            self._deployment.kill(leader)
        else:
            await self._deployment.stop(leader)

    async def _pause(self, rng: Random, _parameters: Parameters) -> None:
        replica = self._some_replica(rng)
        if replica is None:
            return
        lease_seconds = self._scenario.settings.lease_duration_seconds
        seconds = (
            rng.choice((1.0, lease_seconds * 0.8, lease_seconds * 1.5, lease_seconds * 4)) * rng.random()
        )
        self._note("freeze", replica.process.name, f"{seconds:.1f} s")
        led, began = replica.leadership.leading, anyio.current_time()
        self._around.loop.freeze(replica.process)
        await self._pass(seconds)
        if led and replica.process.alive and anyio.current_time() - began > lease_seconds:
            self._sometimes.hit("overslept")
        self._note("thaw", replica.process.name)
        self._around.loop.thaw(replica.process)

    async def _jump(self, rng: Random, _parameters: Parameters) -> None:
        replica = self._some_replica(rng)
        if replica is None:
            return
        seconds = rng.choice((1, -1)) * 10 ** rng.uniform(-1, 4.5)
        self._note("jump", replica.process.name, f"{seconds:.1f} s")
        replica.clock.jump(seconds)

    async def _partition(self, rng: Random, parameters: Parameters) -> None:
        replica = self._some_replica(rng)
        if replica is None:
            return
        self._note("cut off", replica.process.name)
        replica.link.cut = True
        for client in replica.clients:
            for watch in self._around.cluster.watches.matching(client.identity):
                watch.silence()
        await self._pass(rng.expovariate(1 / parameters["lasts_seconds"]))
        if replica.runs:
            self._note("connect", replica.process.name)
            replica.link.cut = False

    async def _roll(self, _rng: Random, _parameters: Parameters) -> None:
        self._note("roll", "deployment")
        await self._deployment.roll()

    async def _change_limit(self, rng: Random, _parameters: Parameters) -> None:
        limit = rng.choice((0, 1, 2, 3))
        self._note("limit", "deployment", str(limit))
        self._deployment.settings = self._deployment.settings.model_copy(
            update={"max_seats_per_claim": limit}
        )
        await self._deployment.roll()

    async def _rival(self, parameters: Parameters) -> None:
        if not await self._pass(parameters["from_seconds"]):
            return
        settings = self._deployment.settings.model_copy(update={"leader_elect": False})
        rival = Deployment(self._around, "rival", settings, replicas=1)
        self._hands.rivals.append(rival)
        rival.start()
        await self._pass(parameters["lasts_seconds"])
        await rival.close()

    # The cluster.

    async def _edit(self, rng: Random, _parameters: Parameters) -> None:
        self._hands.edit(rng)

    async def _disrupt(self, rng: Random, _parameters: Parameters) -> None:
        self._hands.disrupt(rng)

    async def _lose_node(self, rng: Random, parameters: Parameters) -> None:
        node = rng.choice(sorted(self._scenario.nodes))
        if not self._hands.has_node(node):
            return
        self._note("remove node", node)
        self._hands.remove_node(node)
        await self._pass(rng.expovariate(1 / parameters["lasts_seconds"]))
        self._note("add node", node)
        self._hands.add_node(node, self._scenario.nodes[node])

    async def _cordon(self, rng: Random, parameters: Parameters) -> None:
        node = rng.choice(sorted(self._scenario.nodes))
        if not self._hands.has_node(node):
            return
        how = rng.choice(("cordon", "taint", "not ready", "drain", "drain"))
        self._note(how, node)
        if how == "drain":
            self._hands.drain(node)
        else:
            self._hands.close_node(node, how)
        await self._pass(rng.expovariate(1 / parameters["lasts_seconds"]))
        if self._hands.has_node(node):
            self._note("open", node)
            self._hands.open_node(node)

    async def _withdraw(self, rng: Random, parameters: Parameters) -> None:
        node = rng.choice(sorted(self._scenario.nodes))
        if not self._hands.has_node(node):
            return
        self._note("withdraw devices", node)
        self._hands.withdraw_devices(node, incomplete=happens(rng, 0.3))
        await self._pass(rng.expovariate(1 / parameters["lasts_seconds"]))
        if self._hands.has_node(node):
            self._note("publish devices", node)
            self._hands.publish_devices(node, self._scenario.nodes[node])

    async def _lose_namespace(self, rng: Random, parameters: Parameters) -> None:
        """What is not back when faults stop is the end's to bring back, once the last worker has left."""
        self._note("delete", "workers' namespace")
        self._sometimes.hit("namespace deleted", self._hands.delete_namespace())
        if await self._pass(rng.expovariate(1 / parameters["lasts_seconds"])):
            while not self._hands.restore_namespace() and await self._pass(1.0):
                pass

    async def _lose_class(self, rng: Random, parameters: Parameters) -> None:
        self._note("remove", "device class")
        self._hands.remove_device_class()
        await self._pass(rng.expovariate(1 / parameters["lasts_seconds"]))
        self._note("add", "device class")
        self._hands.add_device_class()
