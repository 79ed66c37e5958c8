"""A server, and the actors that make a cluster of it. Who runs the agenda lets them work.

The base of the clusters that there are: one on a virtual loop for simulations, one that serves HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from simulation.actors.base import Delays, Stage
from simulation.actors.claims import ClaimController
from simulation.actors.garbage import GarbageCollector
from simulation.actors.kubelet import Kubelet
from simulation.actors.namespaces import NamespaceController
from simulation.actors.scheduler import Scheduler
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import Watches
from simulation.cluster.nodes import NodeSetup
from simulation.engine.event_queue import EventQueue
from simulation.engine.random_streams import Streams


class ControlPlane:
    """The parts of a cluster. `now` is its wall clock; the actors' chance comes from `seed`."""

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
        stream = self.streams.stream
        stage = Stage(self.server, self.event_queue, delays, now)
        self.scheduler = Scheduler(stage, stream("scheduler"))
        self.claim_controller = ClaimController(stage, stream("claim controller"))
        self.kubelet = Kubelet(stage, stream("kubelet"))
        self.garbage_collector = GarbageCollector(stage, stream("garbage collector"))
        self.namespace_controller = NamespaceController(stage, stream("namespace controller"))
        self.fleet = NodeSetup(self.server)
