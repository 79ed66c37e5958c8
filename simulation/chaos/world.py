"""Faults of the world around the controller: what a cluster's owner forbids, changes and takes away.

Each method injects one fault and undoes it, at the latest when faults stop. `PeriodicFaults` runs them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random

from simulation.apiserver.admission import mutations
from simulation.apiserver.admission.chain import Rule
from simulation.apiserver.admission.mutations import ChangedPods, Edit
from simulation.apiserver.admission.quotas import Quota
from simulation.apiserver.kinds import CLAIMS, LEDGERS, PODS
from simulation.chaos import rules
from simulation.chaos.pods import PodInterference
from simulation.chaos.scenario import Scenario
from simulation.checks.end_state import HIDDEN_NEED
from simulation.cluster.deployment import ReplicaContext
from simulation.engine.fault_plan import Parameters
from simulation.engine.random_streams import happens

Inject = Callable[[Random, Parameters], Awaitable[None]]
Wait = Callable[[float], Awaitable[bool]]

XID: Mapping[str, str] = {"key": "gpu.nvidia.com/xid", "value": "79"}
RULE_NAME = "broken-device"


class WorldFaults:
    """The faults of one run. `wait` waits, and returns False at once when faults stop."""

    def __init__(
        self, context: ReplicaContext, *, scenario: Scenario, pods: PodInterference, wait: Wait
    ) -> None:
        self._context = context
        self._cluster = context.cluster
        self._scenario = scenario
        self._pods = pods
        self._wait = wait

    def __repr__(self) -> str:
        return f"<WorldFaults {self._cluster.server.admission!r}>"

    def injections(self) -> Mapping[str, Inject]:
        """Return the faults by name."""
        return {
            "refused-creations": self._refuse_creations,
            "changed-pods": self._change_pods,
            "hidden-needs": self._hide_needs,
            "gated-pods": self._gate_pods,
            "held-pods": self._hold_pods,
            "tainted-devices": self._taint_devices,
            "evictions": self._evict,
            "foreign-pods": self._add_foreign_pod,
        }

    def _trace_fault(self, verb: str, name: str, outcome: str = "") -> None:
        self._context.trace.add("fault", verb, "", name, outcome)

    async def _last(self, rng: Random, parameters: Parameters) -> None:
        await self._wait(rng.expovariate(1 / parameters["lasts_seconds"]))

    async def _apply(self, verb: str, rule: Rule, rng: Random, parameters: Parameters) -> None:
        self._trace_fault(verb, "owner", repr(rule))
        with self._cluster.server.admission.applied(rule):
            await self._last(rng, parameters)
        self._trace_fault("relent", "owner", verb)

    # Admission.

    async def _refuse_creations(self, rng: Random, parameters: Parameters) -> None:
        """Refuse Pods, claims, ledgers or all of them, with the wording of one component."""
        kinds = rng.choice(((PODS,), (PODS,), (CLAIMS,), (LEDGERS,), (PODS, CLAIMS, LEDGERS)))
        if len(kinds) == 1 and happens(rng, 0.4):
            controller, namespace = self._cluster.quota_controller, self._cluster.workloads.namespace
            exists = len(self._cluster.server.store.all(kinds[0], namespace))
            quota = Quota(kinds[0], namespace, hard=exists + rng.randrange(3))
            self._trace_fault("quota", "owner", f"{kinds[0]} {quota.hard}")
            controller.add(quota)
            await self._last(rng, parameters)
            controller.remove(quota)
            self._trace_fault("relent", "owner", "quota")
        else:
            await self._apply(
                "refuse",
                rules.denial(rng, *kinds, namespace=self._cluster.workloads.namespace),
                rng,
                parameters,
            )

    async def _change_pods(self, rng: Random, parameters: Parameters) -> None:
        await self._apply("change", self._changed(*rules.harmless_edits(rng)), rng, parameters)

    async def _hide_needs(self, rng: Random, parameters: Parameters) -> None:
        """Give new Pods a need that no template shows, and for which nodes may refuse them."""
        await self._apply(
            "hide needs",
            self._changed(rules.hidden_need(rng), mutations.label(HIDDEN_NEED, "yes")),
            rng,
            parameters,
        )

    def _changed(self, *edits: Edit) -> ChangedPods:
        namespace = self._cluster.workloads.namespace
        return ChangedPods(*edits, selects=lambda pod: bool(pod["metadata"].get("namespace") == namespace))

    # Pods that nobody schedules, and Pods that stay.

    async def _gate_pods(self, rng: Random, parameters: Parameters) -> None:
        """Gate new Pods, or name an absent scheduler. Some time later, the Pods can be scheduled."""
        edit = mutations.scheduling_gate(rules.GATE)
        if happens(rng, 0.3):
            edit = mutations.scheduler_name(rules.ABSENT_SCHEDULER)
            self._cluster.scheduler.ignore(rules.ABSENT_SCHEDULER)
        await self._apply("gate", self._changed(edit), rng, parameters)
        await self._last(rng, parameters)
        self._pods.open_gates()

    async def _hold_pods(self, rng: Random, parameters: Parameters) -> None:
        """Let a stranger's finalizer hold each new Pod for some seconds after its deletion."""
        rule = self._changed(mutations.finalizer(rules.FINALIZER))
        self._trace_fault("hold", "owner")
        with self._cluster.server.admission.applied(rule):
            ends = self._context.loop.simulated_seconds + rng.expovariate(1 / parameters["lasts_seconds"])
            while self._context.loop.simulated_seconds < ends and await self._wait(rng.uniform(1, 20)):
                self._pods.drop_finalizers(deleted_only=True)
        self._pods.drop_finalizers(deleted_only=False)

    # Devices and evictions.

    async def _taint_devices(self, rng: Random, parameters: Parameters) -> None:
        """Taint devices of a node in its slice, or one device by a rule."""
        node = rng.choice(sorted(self._scenario.nodes))
        taint = {**XID, "effect": rng.choice(("NoExecute", "NoExecute", "NoSchedule"))}
        devices = [f"gpu-{number}" for number in range(self._scenario.nodes[node].gpus)]
        if happens(rng, 0.5):
            self._trace_fault("taint rule", node)
            self._pods.add_taint_rule(RULE_NAME, node, rng.choice(devices), taint)
            await self._last(rng, parameters)
            self._pods.remove_taint_rule(RULE_NAME)
        else:
            self._trace_fault("taint devices", node)
            self._pods.taint_devices(node, taint, devices=devices[: rng.randint(1, len(devices))])
            await self._last(rng, parameters)
            self._pods.taint_devices(node)
        self._trace_fault("untaint devices", node)

    async def _evict(self, rng: Random, _parameters: Parameters) -> None:
        self._pods.evict_one(rng)

    async def _add_foreign_pod(self, rng: Random, parameters: Parameters) -> None:
        """Add a Pod of another namespace that names a Workload as its owner, sometimes an unreadable one."""
        key = self._pods.add_foreign(rng, sorted(self._scenario.nodes))
        await self._last(rng, parameters)
        self._pods.remove_foreign(key)
