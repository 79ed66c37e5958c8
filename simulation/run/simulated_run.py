"""One run: the cluster, the Deployment in it, its users and faults, and the three phases.

In the first phase users act, faults occur, and every write is checked. In the second, faults stop and their
lasting effects are undone. In the third, the cluster must come to rest and stay at rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import copy_context

import anyio
from anyio.abc import TaskGroup

from informers.queue.runner import ResultLabel
from simulation.apiserver.interception import Request
from simulation.apiserver.kinds import EVENTS, LEASES, PODS
from simulation.apiserver.store import Change
from simulation.chaos.external import ExternalActors
from simulation.chaos.periodic import PeriodicFaults
from simulation.chaos.pods import PodInterference
from simulation.chaos.scenario import CHAOS_SECONDS, Scenario
from simulation.checks.attempts import AttemptChecker
from simulation.checks.bounded_work import excess_work
from simulation.checks.coverage import CoveragePoints
from simulation.checks.end_state import end_state_violations
from simulation.checks.handoff import HandOffCheck
from simulation.checks.invariants import InvariantChecker
from simulation.checks.liveness import BOUND_SECONDS, Liveness
from simulation.checks.write_order import WriteOrderChecker
from simulation.cluster.deployment import Deployment, Replica, ReplicaContext
from simulation.cluster.network import Link, Network
from simulation.cluster.simulated_cluster import NotSettled, SimulatedCluster
from simulation.engine.fault_plan import FaultPlan
from simulation.engine.random_streams import Streams, happens
from simulation.engine.trace import Trace
from simulation.engine.virtual_loop import running_virtual_loop
from simulation.run.repair_phase import RepairCheck

LIMIT_MEMORY_SECONDS = 120.0
"""How long the limit of an ended process still counts, because one of its writes may arrive late."""

VIOLATIONS_MAX = 20


class SimulatedRun:
    """One run. `failures` has one sentence per violation."""

    def __init__(self, streams: Streams, scenario: Scenario, plan: FaultPlan) -> None:
        self._streams = streams
        self._scenario = scenario
        self._plan = plan
        self.failures: list[str] = []
        self.seconds = 0.0
        self.coverage: Mapping[str, int] = {}
        self._loop = loop = running_virtual_loop()
        self.trace = Trace(lambda: loop.simulated_seconds)
        self.cluster = SimulatedCluster(seed=streams.seed, delays=scenario.delays)
        self.network = Network(self._loop, copy_context(), plan, self.trace)
        self.invariants = InvariantChecker(
            self.cluster, limit=self._limit, is_late_write=lambda: self.network.is_late_write
        )
        self._write_order = WriteOrderChecker(
            self.cluster.server,
            lambda: loop.simulated_seconds,
            is_external=lambda: self.invariants.is_suspended,
            writer=lambda: self.network.writer,
        )
        self._attempts = AttemptChecker(
            self.cluster.server, lambda: loop.simulated_seconds, lambda: self.network.writer
        )
        self._handoff = HandOffCheck(self.cluster)
        self.external = ExternalActors(self.cluster, self.invariants, self.trace)
        self._coverage_points = CoveragePoints(self.cluster.server, self.trace)
        self.network.on_send = self._on_send
        self.network.rogue_write = self.external.touch
        self._liveness = Liveness(
            self.cluster, self.network, clocks_agree=plan.parameters("clock-jumps") is None
        )
        self._limits: dict[str, tuple[int, float]] = {}
        self.deployment: Deployment | None = None
        self.cluster.server.store.subscribe(self._on_change)

    def __repr__(self) -> str:
        return f"<SimulatedRun {self.cluster!r} failures={len(self.failures)}>"

    @property
    def _deployments(self) -> list[Deployment]:
        return [self.deployment, *self.external.rivals] if self.deployment is not None else []

    def _replicas(self) -> list[Replica]:
        return [replica for deployment in self._deployments for replica in deployment.running()]

    async def run(self) -> None:
        """Run all three phases."""
        self._configure_servers()
        for name, shape in self._scenario.nodes.items():
            self.cluster.fleet.ensure_device_class()
            self.cluster.fleet.add_node(name, shape)
        async with self.cluster, anyio.create_task_group() as tasks:
            try:
                await self._run_phases(tasks)
            finally:
                # A killed process cannot be cancelled: the task group would wait for it forever.
                for deployment in self._deployments:
                    deployment.release_killed()
                tasks.cancel_scope.cancel()

    async def _run_phases(self, tasks: TaskGroup) -> None:
        context = ReplicaContext(
            self.cluster,
            self._loop,
            self.network,
            self._streams,
            self.trace,
            tasks,
            max_drift=self._plan.value("clock-rates", "max_drift"),
            on_kill=self._coverage_points.on_kill,
        )
        self.deployment = Deployment(
            context, "controller", self._scenario.settings, replicas=self._scenario.replicas
        )
        self.deployment.start()
        faults = PeriodicFaults(
            context,
            plan=self._plan,
            scenario=self._scenario,
            deployment=self.deployment,
            external=self.external,
            coverage=self._coverage_points,
        )
        faults.start(tasks)
        await self._run_users()
        faults.stop()
        await self._undo_faults(self.deployment)
        await self._check(self.deployment)
        self.failures += context.failures
        replicas = [replica for deployment in self._deployments for replica in deployment.all_replicas]
        self.failures += excess_work(self.trace, replicas)
        self.seconds = self._loop.simulated_seconds
        self._coverage_points.hit("stale list", self.cluster.server.replicas.stale_lists_total)
        self.coverage = self._coverage_points.report(self._deployments)

    def _configure_servers(self) -> None:
        if self._plan.parameters("clock-rates"):
            self._loop.enable_skew()
        watches, rng = self.cluster.watches, self._streams.get("api servers")
        loop = self._loop
        watches.now = lambda: loop.simulated_seconds
        watches.bookmarks = not self._plan.parameters("starved-bookmarks")
        watches.refuses_expired = lambda: happens(rng, 0.5)
        lagging = self._plan.parameters("lagging-replicas")
        if lagging is not None:
            stuck = [0.0]

            def lag_seconds() -> float:
                now = anyio.current_time()
                if rng.random() < lagging["stuck_rate"]:
                    stuck[0] = now + lagging["stuck_seconds"]
                return max(rng.expovariate(1 / lagging["lag_seconds"]), stuck[0] - now)

            self.cluster.server.replicas.lag(int(lagging["replicas"]), rng, lag_seconds)

    # Phases.

    async def _run_users(self) -> None:
        for action in self._scenario.actions:
            await anyio.sleep(max(0.0, action.seconds - anyio.current_time()))
            self.external.run(action)
        await anyio.sleep(max(0.0, CHAOS_SECONDS - anyio.current_time()))

    async def _undo_faults(self, deployment: Deployment) -> None:
        """Undo the lasting effects of faults; the fault tasks end at the same time."""
        self.trace.add("fault", "stop", "", "all faults")
        self.network.is_healthy = True
        self.network.error_share = 0.0
        self.cluster.server.replicas.heal()
        self.cluster.watches.bookmarks = True
        await anyio.sleep(1.0)
        self.external.release_held_pods()
        PodInterference(self.cluster, self.trace).undo()
        self.external.add_device_class()
        for name, shape in self._scenario.nodes.items():
            self.external.add_node(name, shape)
            self.external.open_node(name)
        for replica in deployment.running():
            replica.link.is_cut = False
            replica.link.crash_at_next_write = ""
        await self._restore_namespace()

    async def _restore_namespace(self) -> None:
        """Restore a deleted namespace once it is empty; that must not take longer than convergence."""
        unmet = "the workers' namespace is still terminating"
        try:
            await self.cluster.wait_until(self.external.restore_namespace, unmet, limit_seconds=BOUND_SECONDS)
        except NotSettled as error:
            self.failures.append(str(error))

    async def _check(self, deployment: Deployment) -> None:
        settings = deployment.settings
        limit, timeout = settings.max_seats_per_claim, settings.placement_timeout_seconds
        violations = await self._liveness.check_convergence(limit=limit, timeout_seconds=timeout)
        if not violations:
            violations = self._end_state_violations()
            if not self._scenario.ample:
                violations += await self._handoff.run(limit=limit)
            repair = RepairCheck(self.cluster, self.external)
            violations += await repair.run(limit=limit)
            self._coverage_points.hit("handed off at rest", self._handoff.rounds)
            self._coverage_points.hit("repaired at rest", repair.rounds)
            violations += await self._liveness.check_convergence(limit=limit, timeout_seconds=timeout)
            if not violations:
                violations += await self._liveness.check_rest(self._retries, timeout_seconds=timeout)
        observed = (self.invariants, self._write_order, self._attempts)
        self.failures += [text for checker in observed for text in checker.violations][:VIOLATIONS_MAX]
        self.failures += violations

    def _retries(self) -> int:
        """Return the number of failed or requeued reconciles of all running processes."""
        total = 0
        for replica in self._replicas():
            counts = replica.controller.runner.statistics().reconciles_total
            total += counts[ResultLabel.ERROR] + counts[ResultLabel.REQUEUE]
        return total

    def _end_state_violations(self) -> list[str]:
        return list(end_state_violations(self.cluster, self.external.expected, all_run=self._scenario.ample))

    # Observing writes.

    def _on_change(self, change: Change) -> None:
        self.trace.add(
            "store", change.type.value, change.kind.plural, change.record.key.name, str(change.revision)
        )
        if change.kind is not EVENTS and change.kind is not LEASES:
            self.trace.update_digest(change.record.data)

    def _on_send(self, link: Link, request: Request) -> None:
        """Check that a controller may send the write, and count a dry run."""
        if request.dry_run:
            self._attempts.on_probe(link.process)
            self._coverage_points.hit("probe")
            return
        if request.kind is EVENTS or request.kind is LEASES:
            return
        if request.kind is PODS and request.namespace != self.cluster.workloads.namespace:
            self.failures.append(f"{request} was sent for a Pod of another namespace")
        running = self._replicas()
        # A rival without an elector always leads; the point requires two electing processes.
        elected = [replica for replica in running if replica.leadership.elector is not None]
        self._coverage_points.hit("two leaders", sum(replica.leadership.leading for replica in elected) > 1)
        self._coverage_points.hit("rival", link.process.startswith("rival"))
        limits = [replica.settings.max_seats_per_claim for replica in running]
        self._coverage_points.lowest_limit = min((limit for limit in limits if limit), default=0)
        sender = next((replica for replica in running if replica.link is link), None)
        if sender is not None and not sender.leadership.may_write():
            self.failures.append(f"{request} was sent by a process that may not write")

    def _limit(self) -> int:
        """Return the highest recent limit of any controller; 0 means no limit."""
        now = self._loop.simulated_seconds
        for replica in self._replicas():
            self._limits[replica.process.name] = (replica.settings.max_seats_per_claim, now)
        recent = [limit for limit, seen in self._limits.values() if now - seen < LIMIT_MEMORY_SECONDS]
        return 0 if not recent or 0 in recent else max(recent)
