"""Faults that occur at random times, each injected by its own task.

The task that injects a fault also undoes it, at the latest when faults stop. Faults of single calls are in
`simulation.cluster.network`.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import anyio
from anyio.abc import TaskGroup

from simulation.chaos.external import ExternalActors
from simulation.chaos.pods import PodInterference
from simulation.chaos.scenario import Scenario
from simulation.chaos.world import Inject, WorldFaults
from simulation.checks.coverage import CoveragePoints
from simulation.cluster.deployment import Deployment, Replica, ReplicaContext
from simulation.engine.fault_plan import FaultPlan, Parameters
from simulation.engine.random_streams import happens


class PeriodicFaults:
    """All periodic faults of one run."""

    def __init__(
        self,
        context: ReplicaContext,
        *,
        plan: FaultPlan,
        scenario: Scenario,
        deployment: Deployment,
        external: ExternalActors,
        coverage: CoveragePoints,
    ) -> None:
        self._context = context
        self._plan = plan
        self._scenario = scenario
        self._deployment = deployment
        self._external = external
        self._coverage = coverage
        self._stopped = anyio.Event()
        pods = PodInterference(context.cluster, context.trace)
        self._world = WorldFaults(context, scenario=scenario, pods=pods, wait=self._wait)

    def __repr__(self) -> str:
        return f"<PeriodicFaults stopped={self._stopped.is_set()}>"

    def start(self, tasks: TaskGroup) -> None:
        """Start every fault that is on."""
        table: Mapping[str, Inject] = {
            "error-bursts": self._fail_calls,
            "silent-watches": self._silence_watches,
            "cut-watches": self._cut_watches,
            "expired-watches": self._expire_watches,
            "crashes": self._crash,
            "blind-standbys": self._blind_standby,
            "pauses": self._pause,
            "clock-jumps": self._jump_clock,
            "partitions": self._partition,
            "rolling-updates": self._roll,
            "limit-changes": self._change_limit,
            "hand-edits": self._edit_by_hand,
            "node-loss": self._remove_node,
            "cordons": self._close_node,
            "withdrawn-devices": self._withdraw_devices,
            "disrupted-pods": self._disrupt_pod,
            "lost-namespace": self._delete_namespace,
            "lost-class": self._remove_class,
            **self._world.injections(),
        }
        for name, inject in table.items():
            parameters = self._plan.parameters(name)
            if parameters is not None:
                tasks.start_soon(self._repeat, name, inject, parameters)
        rival = self._plan.parameters("rival")
        if rival is not None:
            tasks.start_soon(self._run_rival, rival)

    def stop(self) -> None:
        """Inject no new faults, and end the lasting ones."""
        self._stopped.set()

    async def _repeat(self, name: str, inject: Inject, parameters: Parameters) -> None:
        rng = self._context.streams.get(f"fault {name}")
        while await self._wait(rng.expovariate(1 / parameters["mean_seconds"])):
            await inject(rng, parameters)

    async def _wait(self, seconds: float) -> bool:
        """Wait; return False, at once, when faults stop."""
        with anyio.move_on_after(seconds):
            await self._stopped.wait()
        return not self._stopped.is_set()

    def _trace_fault(self, verb: str, name: str, outcome: str = "") -> None:
        self._context.trace.add("fault", verb, "", name, outcome)

    def _some_replica(self, rng: Random) -> Replica | None:
        running = self._deployment.running()
        return rng.choice(running) if running else None

    # Calls and watches.

    async def _fail_calls(self, rng: Random, parameters: Parameters) -> None:
        self._trace_fault("burst", "api server")
        self._context.network.error_share = parameters["share"]
        await self._wait(rng.expovariate(1 / parameters["lasts_seconds"]))
        self._context.network.error_share = 0.0

    async def _silence_watches(self, rng: Random, _parameters: Parameters) -> None:
        self._disturb_watches(rng, "silence")

    async def _cut_watches(self, rng: Random, _parameters: Parameters) -> None:
        self._disturb_watches(rng, "cut" if happens(rng, 0.7) else "end")

    def _disturb_watches(self, rng: Random, verb: str) -> None:
        watches = self._context.cluster.watches.matching()
        if not watches:
            return
        chosen = watches if happens(rng, 0.2) else [rng.choice(watches)]
        for watch in chosen:
            self._trace_fault(verb, f"{watch.client} {watch.kind}")
            {"silence": watch.silence, "cut": watch.cut, "end": watch.end}[verb]()

    async def _expire_watches(self, rng: Random, _parameters: Parameters) -> None:
        store = self._context.cluster.server.store
        self._trace_fault("compact", "etcd", str(store.revision))
        store.compact(store.revision - rng.choice((0, 0, 5, 50)))
        if happens(rng, 0.7):
            self._disturb_watches(rng, "cut")

    # Controllers.

    async def _crash(self, rng: Random, _parameters: Parameters) -> None:
        replica = self._some_replica(rng)
        if replica is None:
            return
        time = rng.choice(("now", "before", "after", "before", "after"))
        if time == "now":
            self._deployment.kill(replica)
        else:
            replica.link.crash_at_next_write = time

    async def _blind_standby(self, rng: Random, parameters: Parameters) -> None:
        """Let caches of a standby fall behind, then end the leader: the new one decides on stale caches."""
        running = self._deployment.running()
        leader = next((each for each in running if each.leadership.leading), None)
        standby = next((each for each in running if not each.leadership.leading), None)
        if leader is None or standby is None:
            return
        self._trace_fault("blind", standby.process.name)
        for client in standby.clients:
            for watch in self._context.cluster.watches.matching(client.identity):
                if happens(rng, 0.5):
                    watch.silence()
        if not await self._wait(rng.random() * parameters["blind_seconds"]) or not leader.is_running:
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
        self._trace_fault("freeze", replica.process.name, f"{seconds:.1f} s")
        led, began = replica.leadership.leading, anyio.current_time()
        self._context.loop.freeze(replica.process)
        await self._wait(seconds)
        if led and replica.process.is_alive and anyio.current_time() - began > lease_seconds:
            self._coverage.hit("paused past the lease")
        self._trace_fault("thaw", replica.process.name)
        self._context.loop.thaw(replica.process)

    async def _jump_clock(self, rng: Random, _parameters: Parameters) -> None:
        replica = self._some_replica(rng)
        if replica is None:
            return
        seconds = rng.choice((1, -1)) * 10 ** rng.uniform(-1, 4.5)
        self._trace_fault("jump", replica.process.name, f"{seconds:.1f} s")
        replica.clock.jump(seconds)

    async def _partition(self, rng: Random, parameters: Parameters) -> None:
        replica = self._some_replica(rng)
        if replica is None:
            return
        self._trace_fault("cut off", replica.process.name)
        replica.link.is_cut = True
        for client in replica.clients:
            for watch in self._context.cluster.watches.matching(client.identity):
                watch.silence()
        await self._wait(rng.expovariate(1 / parameters["lasts_seconds"]))
        if replica.is_running:
            self._trace_fault("connect", replica.process.name)
            replica.link.is_cut = False

    async def _roll(self, _rng: Random, _parameters: Parameters) -> None:
        self._trace_fault("roll", "deployment")
        await self._deployment.roll()

    async def _change_limit(self, rng: Random, _parameters: Parameters) -> None:
        limit = rng.choice((0, 1, 2, 3))
        self._trace_fault("limit", "deployment", str(limit))
        self._deployment.settings = self._deployment.settings.model_copy(
            update={"max_seats_per_claim": limit}
        )
        await self._deployment.roll()

    async def _run_rival(self, parameters: Parameters) -> None:
        if not await self._wait(parameters["from_seconds"]):
            return
        settings = self._deployment.settings.model_copy(update={"leader_elect": False})
        rival = Deployment(self._context, "rival", settings, replicas=1)
        self._external.rivals.append(rival)
        rival.start()
        await self._wait(parameters["lasts_seconds"])
        await rival.close()

    # The cluster.

    async def _edit_by_hand(self, rng: Random, _parameters: Parameters) -> None:
        self._external.edit(rng)

    async def _disrupt_pod(self, rng: Random, _parameters: Parameters) -> None:
        self._external.disrupt(rng)

    async def _remove_node(self, rng: Random, parameters: Parameters) -> None:
        node = rng.choice(sorted(self._scenario.nodes))
        if not self._external.has_node(node):
            return
        self._trace_fault("remove node", node)
        self._external.remove_node(node)
        await self._wait(rng.expovariate(1 / parameters["lasts_seconds"]))
        self._trace_fault("add node", node)
        self._external.add_node(node, self._scenario.nodes[node])

    async def _close_node(self, rng: Random, parameters: Parameters) -> None:
        node = rng.choice(sorted(self._scenario.nodes))
        if not self._external.has_node(node):
            return
        method = rng.choice(("cordon", "taint", "not ready", "drain", "drain"))
        self._trace_fault(method, node)
        if method == "drain":
            self._external.drain(node)
        else:
            self._external.close_node(node, method)
        await self._wait(rng.expovariate(1 / parameters["lasts_seconds"]))
        if self._external.has_node(node):
            self._trace_fault("open", node)
            self._external.open_node(node)

    async def _withdraw_devices(self, rng: Random, parameters: Parameters) -> None:
        node = rng.choice(sorted(self._scenario.nodes))
        if not self._external.has_node(node):
            return
        self._trace_fault("withdraw devices", node)
        self._external.withdraw_devices(node, incomplete=happens(rng, 0.3))
        await self._wait(rng.expovariate(1 / parameters["lasts_seconds"]))
        if self._external.has_node(node):
            self._trace_fault("publish devices", node)
            self._external.publish_devices(node, self._scenario.nodes[node])

    async def _delete_namespace(self, rng: Random, parameters: Parameters) -> None:
        """Delete the namespace. If faults stop before it is back, the next phase restores it."""
        self._trace_fault("delete", "workers' namespace")
        self._coverage.hit("namespace deleted", self._external.delete_namespace())
        if await self._wait(rng.expovariate(1 / parameters["lasts_seconds"])):
            while not self._external.restore_namespace() and await self._wait(1.0):
                pass

    async def _remove_class(self, rng: Random, parameters: Parameters) -> None:
        self._trace_fault("remove", "device class")
        self._external.remove_device_class()
        await self._wait(rng.expovariate(1 / parameters["lasts_seconds"]))
        self._trace_fault("add", "device class")
        self._external.add_device_class()
