"""The world of one run: the cluster, the Deployment in it, its users and its faults, and the three phases.

First everything happens at once: users act, faults come, and each write is checked as it is made. Then faults
stop and what they left open is closed. Then everything must come to rest and stay there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import copy_context

import anyio
from anyio.abc import TaskGroup

from informers.queue.runner import ResultLabel
from simulation.apiserver.interception import Request
from simulation.apiserver.kinds import EVENTS, LEASES
from simulation.apiserver.store import Change
from simulation.chaos.external import ExternalActors
from simulation.chaos.periodic import PeriodicFaults
from simulation.chaos.scenario import CHAOS_SECONDS, Scenario
from simulation.checks.bounded_work import wasteful
from simulation.checks.coverage import CoveragePoints
from simulation.checks.end_state import end_faults
from simulation.checks.handoff import HandOffCheck
from simulation.checks.invariants import InvariantChecker
from simulation.checks.liveness import BOUND_SECONDS, Liveness
from simulation.checks.write_order import WriteOrderChecker
from simulation.cluster.deployment import Deployment, Replica, ReplicaContext
from simulation.cluster.network import Link, Network
from simulation.cluster.simulated import NotSettled, SimulatedCluster
from simulation.engine.fault_plan import FaultPlan
from simulation.engine.random_streams import Streams, happens
from simulation.engine.trace import Trace
from simulation.engine.virtual_loop import running_virtual_loop
from simulation.run.repair_phase import RepairCheck

MEMORY_OF_LIMITS_SECONDS = 120.0
"""So long after the end of a process a write of its may arrive: the limit that it went by still counts."""

VIOLATIONS_MAX = 20


class SimulatedRun:
    """One run. `failures` is what was wrong in it."""

    def __init__(self, streams: Streams, scenario: Scenario, plan: FaultPlan) -> None:
        self._streams = streams
        self._scenario = scenario
        self._plan = plan
        self.failures: list[str] = []
        self.seconds = 0.0
        self.sometimes: Mapping[str, int] = {}
        self._loop = loop = running_virtual_loop()
        self.trace = Trace(lambda: loop.world_seconds)
        self.cluster = SimulatedCluster(seed=streams.seed, delays=scenario.delays)
        self.network = Network(self._loop, copy_context(), plan, self.trace)
        self.invariants = InvariantChecker(
            self.cluster, limit=self._limit, lands_late=lambda: self.network.lands_late
        )
        self._order = WriteOrderChecker(
            self.cluster.server,
            lambda: loop.world_seconds,
            by_hand=lambda: self.invariants.is_suspended,
            writer=lambda: self.network.writer,
        )
        self._handover = HandOffCheck(self.cluster)
        self.hands = ExternalActors(self.cluster, self.invariants, self.trace)
        self._points = CoveragePoints(self.cluster.server, self.trace)
        self.network.observe = self._on_send
        self.network.rogue = self.hands.touch
        self._liveness = Liveness(self.cluster, self.network, clocks_agree=plan.of("clock-jumps") is None)
        self._limits: dict[str, tuple[int, float]] = {}
        self.deployment: Deployment | None = None
        self.cluster.server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<World {self.cluster!r} failures={len(self.failures)}>"

    @property
    def _deployments(self) -> list[Deployment]:
        return [self.deployment, *self.hands.rivals] if self.deployment is not None else []

    def _replicas(self) -> list[Replica]:
        return [replica for deployment in self._deployments for replica in deployment.running()]

    async def live(self) -> None:
        """All three phases."""
        self._set_servers()
        for name, shape in self._scenario.nodes.items():
            self.cluster.fleet.ensure_device_class()
            self.cluster.fleet.add_node(name, shape)
        async with self.cluster, anyio.create_task_group() as tasks:
            try:
                await self._live(tasks)
            finally:
                # Whatever ends a run: the dead cannot be cancelled, and would be waited for for ever.
                for deployment in self._deployments:
                    deployment.bury()
                tasks.cancel_scope.cancel()

    async def _live(self, tasks: TaskGroup) -> None:
        around = ReplicaContext(
            self.cluster,
            self._loop,
            self.network,
            self._streams,
            self.trace,
            tasks,
            rate_part=self._plan.value("clock-rates", "part"),
            on_kill=self._points.on_kill,
        )
        self.deployment = Deployment(
            around, "controller", self._scenario.settings, replicas=self._scenario.replicas
        )
        self.deployment.start()
        disturbances = PeriodicFaults(
            around,
            plan=self._plan,
            scenario=self._scenario,
            deployment=self.deployment,
            hands=self.hands,
            sometimes=self._points,
        )
        disturbances.start(tasks)
        await self._users()
        disturbances.stop()
        await self._heal(self.deployment)
        await self._judge(self.deployment)
        self.failures += around.failures
        every = [replica for deployment in self._deployments for replica in deployment.all]
        self.failures += wasteful(self.trace, every)
        self.seconds = self._loop.world_seconds
        self._points.hit("stale list", self.cluster.server.replicas.stale_lists_total)
        self.sometimes = self._points.report(self._deployments)

    def _set_servers(self) -> None:
        if self._plan.of("clock-rates"):
            self._loop.skew()
        watches, rng = self.cluster.watches, self._streams.stream("api servers")
        loop = self._loop
        watches.now = lambda: loop.world_seconds
        watches.bookmarks = not self._plan.of("starved-bookmarks")
        watches.refuses_expired = lambda: happens(rng, 0.5)
        lagging = self._plan.of("lagging-replicas")
        if lagging is not None:
            stuck = [0.0]

            def lag_seconds() -> float:
                now = anyio.current_time()
                if rng.random() < lagging["stuck_rate"]:
                    stuck[0] = now + lagging["stuck_seconds"]
                return max(rng.expovariate(1 / lagging["lag_seconds"]), stuck[0] - now)

            self.cluster.server.replicas.lag(int(lagging["replicas"]), rng, lag_seconds)

    # Phases.

    async def _users(self) -> None:
        for act in self._scenario.acts:
            await anyio.sleep(max(0.0, act.seconds - anyio.current_time()))
            self.hands.act(act)
        await anyio.sleep(max(0.0, CHAOS_SECONDS - anyio.current_time()))

    async def _heal(self, deployment: Deployment) -> None:
        """Close what the faults left open; what lasts by itself ends in the next moment."""
        self.trace.add("fault", "stop", "", "all faults")
        self.network.healthy = True
        self.network.burst_share = 0.0
        self.cluster.server.replicas.heal()
        self.cluster.watches.bookmarks = True
        await anyio.sleep(1.0)
        self.hands.let_all_start()
        self.hands.add_device_class()
        for name, shape in self._scenario.nodes.items():
            self.hands.add_node(name, shape)
            self.hands.open_node(name)
        for replica in deployment.running():
            replica.link.cut = False
            replica.link.dies_at_next = ""
        await self._bring_the_namespace_back()

    async def _bring_the_namespace_back(self) -> None:
        """It goes once its last worker has left, which must not take longer than rest may."""
        what = "the workers' namespace goes"
        try:
            await self.cluster.wait_until(self.hands.restore_namespace, what, limit_seconds=BOUND_SECONDS)
        except NotSettled as error:
            self.failures.append(str(error))

    async def _judge(self, deployment: Deployment) -> None:
        settings = deployment.settings
        limit, timeout = settings.max_seats_per_claim, settings.placement_timeout_seconds
        wrong = await self._liveness.converge(limit=limit, timeout_seconds=timeout)
        if not wrong:
            wrong = self._end_state()
            if not self._scenario.ample:
                wrong += await self._handover.judge(limit=limit)
            mending = RepairCheck(self.cluster, self.hands)
            wrong += await mending.judge(limit=limit)
            self._points.hit("handed on at rest", self._handover.rounds)
            self._points.hit("mended at rest", mending.rounds)
            wrong += await self._liveness.converge(limit=limit, timeout_seconds=timeout)
            wrong += await self._liveness.stay(self._retries, timeout_seconds=timeout) if not wrong else []
        self.failures += [*self.invariants.violations, *self._order.violations][:VIOLATIONS_MAX]
        self.failures += wrong

    def _retries(self) -> int:
        """How often a reconcile of a process that runs had to be done again."""
        total = 0
        for replica in self._replicas():
            counts = replica.controller.runner.statistics().reconciles_total
            total += counts[ResultLabel.ERROR] + counts[ResultLabel.REQUEUE]
        return total

    def _end_state(self) -> list[str]:
        """What the end must look like whatever happened in between, as far as that is defined."""
        return list(end_faults(self.cluster, self.hands.expected, all_run=self._scenario.ample))

    # Watching.

    def _on_change(self, change: Change) -> None:
        self.trace.add(
            "store", change.type.value, change.kind.plural, change.record.key.name, str(change.revision)
        )
        if change.kind is not EVENTS and change.kind is not LEASES:
            self.trace.mix(change.record.data)

    def _on_send(self, link: Link, request: Request) -> None:
        """A controller sends a write: may it?"""
        if request.kind is EVENTS or request.kind is LEASES:
            return
        running = self._replicas()
        # A rival without an elector always leads: that two of the others do is what is asked for.
        elected = [replica for replica in running if replica.leadership.elector is not None]
        self._points.hit("two leaders", sum(replica.leadership.leading for replica in elected) > 1)
        self._points.hit("rival", link.process.startswith("rival"))
        limits = [replica.settings.max_seats_per_claim for replica in running]
        self._points.lowest_limit = min((limit for limit in limits if limit), default=0)
        sender = next((replica for replica in running if replica.link is link), None)
        if sender is not None and not sender.leadership.may_write():
            self.failures.append(f"{request} was sent by a process that may not write")

    def _limit(self) -> int:
        """The highest limit that anybody went by lately; 0 is none."""
        now = self._loop.world_seconds
        for replica in self._replicas():
            self._limits[replica.process.name] = (replica.settings.max_seats_per_claim, now)
        recent = [limit for limit, seen in self._limits.values() if now - seen < MEMORY_OF_LIMITS_SECONDS]
        return 0 if not recent or 0 in recent else max(recent)
