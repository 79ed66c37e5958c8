"""An API server with the actors that turn it into a cluster.

The base class of both clusters: one on a virtual loop for simulations, one that serves HTTP. The actors work
while a subclass runs the event queue.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from simulation.actors.base import ActorContext, Delays
from simulation.actors.claims import ClaimController
from simulation.actors.garbage import GarbageCollector
from simulation.actors.kubelet import Kubelet
from simulation.actors.namespaces import NamespaceController
from simulation.actors.quotas import QuotaController
from simulation.actors.scheduler import Scheduler
from simulation.actors.taint_evictions import DeviceTaintEviction, NodeTaintEviction
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import Watches
from simulation.cluster.nodes import NodeSetup
from simulation.engine.event_queue import EventQueue
from simulation.engine.random_streams import Streams


class ControlPlane:
    """The parts of a cluster. `now` is its wall clock; `seed` determines the randomness of the actors."""

    def __init__(
        self,
        *,
        seed: int,
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        namespaces: tuple[str, ...],
        delays: Delays,
    ) -> None:
        self.streams = Streams(seed)
        self.server = ApiServer(now=now, new_uid=new_uid, namespaces=namespaces)
        self.watches = Watches(self.server.store, self.server.replicas)
        self.event_queue = EventQueue()
        context = ActorContext(self.server, self.event_queue, delays, now)
        self.scheduler = Scheduler(context, self.streams.get("scheduler"))
        self.claim_controller = ClaimController(context, self.streams.get("claim controller"))
        self.kubelet = Kubelet(context, self.streams.get("kubelet"))
        self.garbage_collector = GarbageCollector(context, self.streams.get("garbage collector"))
        self.namespace_controller = NamespaceController(context, self.streams.get("namespace controller"))
        self.quota_controller = QuotaController(context, self.streams.get("quota controller"))
        self.node_taint_eviction = NodeTaintEviction(context, self.streams.get("node taint eviction"))
        self.device_taint_eviction = DeviceTaintEviction(context, self.streams.get("device taint eviction"))
        self.fleet = NodeSetup(self.server)
