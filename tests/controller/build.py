"""Builders of API objects (decoded by the controller's own decoders) and of a composed but idle controller.

Every default is a valid worker, node, claim or Pod. No task runs: tests fill the caches directly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from controller.api.core import NODES, Node, Pod
from controller.api.dra import CLAIMS, SLICES, ResourceClaim, ResourceSlice
from controller.api.pods import PODS, full_pod
from controller.api.requests import PlacementRequests
from controller.api.status import timestamp
from controller.api.workload import WORKLOADS, Workload
from controller.cluster.caches import CLAIM_LEDGERS, Caches, make_caches
from controller.cluster.claim_locks import ClaimLocks
from controller.cluster.fleet_updater import FleetUpdater
from controller.cluster.ledger_client import LedgerClient
from controller.cluster.live_reader import LiveReader
from controller.cluster.object_writer import ObjectWriter
from controller.config.flags import Settings
from controller.config.nondeterminism import Nondeterminism
from controller.observe.counters import Counters
from controller.observe.events import WorkloadEvents, make_recorder
from controller.queue.activation import ActivationPlanner
from controller.queue.refused_groups import RefusedGroups
from controller.queue.scheduling_queue import SchedulingQueue
from controller.queue.self_writes import SelfWriteFilter
from controller.reconcile.context import ReconcileContext
from controller.reconcile.local_state import LocalState
from informers.api import Api, ObjectKey
from ledger.booking import SeatBook
from ledger.claim_names import MANAGED_LABEL, MANAGED_VALUE, ledger_name
from ledger.state import ClaimLedger
from placement.fleet import Fleet
from placement.types import Refusals
from simulation.apiserver.client import ApiClient
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import Watches

Document = dict[str, Any]

NAMESPACE = "openrl-system"
DRIVER = "gpu.example.com"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ENABLED = {"openrl.io/enabled": "true"}

_versions = count(1)


@dataclass
class Clock:
    """A wall clock that only a test advances."""

    time: datetime = EPOCH

    def __call__(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return (self.time - EPOCH).total_seconds()

    def advance(self, **duration: float) -> None:
        """Advance the clock by the arguments of `timedelta`."""
        self.time += timedelta(**duration)


def at(**since_epoch: float) -> str:
    """Return a time after the epoch as API objects contain it."""
    return timestamp(EPOCH + timedelta(**since_epoch))


def metadata(name: str, namespace: str = NAMESPACE, **more: Any) -> Document:
    """Return metadata with a UID made from the name and a version newer than any before."""
    version = str(next(_versions))
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version, **more}


def template(*containers: Document, **spec: Any) -> Document:
    """Return a Pod template, by default with one container named `worker`."""
    return {"spec": {"containers": list(containers) or [container()], **spec}}


def container(name: str = "worker", memory: str = "1Gi", cpu: str | float = "100m", **more: Any) -> Document:
    return {"name": name, "image": "i", "resources": {"requests": {"memory": memory, "cpu": cpu}}, **more}


def workload(name: str = "a", *, meta: Document | None = None, status: Any = None, **spec: Any) -> Workload:
    """Return a trainer that may share."""
    document = {
        "metadata": metadata(name, creationTimestamp=at(), generation=1) | (meta or {}),
        "spec": {
            "role": "trainer",
            "modelID": "model",
            "exclusive": False,
            "accelerator": {"memory": "20Gi"},
            "template": template(),
            **spec,
        },
        "status": status or {},
    }
    return WORKLOADS.decode(json.dumps(document).encode())


def node(name: str = "node", labels: dict[str, str] | None = None, **more: Any) -> Node:
    """Return an enabled, ready node."""
    document = {
        "metadata": metadata(name, "", labels=ENABLED | (labels or {})),
        "spec": more.pop("spec", {}),
        "status": {
            "allocatable": {"memory": "64Gi", "cpu": "16", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            **more,
        },
    }
    return NODES.decode(json.dumps(document).encode())


def slice_of(node_name: str = "node", *devices: Document, **spec: Any) -> ResourceSlice:
    """Return the complete pool of a node, by default with one 80 GiB device `gpu-0`."""
    document = {
        "metadata": metadata(f"slice-{node_name}", ""),
        "spec": {
            "driver": DRIVER,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices) or [device()],
            **spec,
        },
    }
    return SLICES.decode(json.dumps(document).encode())


def device(name: str = "gpu-0", memory: str | float | None = "80Gi", **more: Any) -> Document:
    return {"name": name, "capacity": {} if memory is None else {"memory": {"value": memory}}, **more}


def node_selector(name: str) -> Document:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return {"nodeSelectorTerms": [{"matchFields": fields}]}


def allocation(node_name: str = "node", device_name: str = "gpu-0", **result: Any) -> Document:
    row = {"driver": DRIVER, "pool": node_name, "device": device_name, "request": "gpu/t1x80", **result}
    return {"devices": {"results": [row]}, "nodeSelector": node_selector(node_name)}


def claim(
    name: str = "claim-a", *, allocated: Document | None = None, meta: Document | None = None
) -> ResourceClaim:
    """Return a managed claim owned by its ledger. `allocated` is its allocation."""
    owner = {
        "apiVersion": CLAIM_LEDGERS.api_version,
        "kind": "ClaimLedger",
        "name": ledger_name(name),
        "uid": f"uid-{ledger_name(name)}",
    }
    managed = metadata(name, labels={MANAGED_LABEL: MANAGED_VALUE}, ownerReferences=[owner])
    document = {
        "metadata": managed | (meta or {}),
        "status": {"allocation": allocated} if allocated else {},
    }
    return CLAIMS.decode(json.dumps(document).encode())


def ledger(claim_name: str, *seats: Document) -> ClaimLedger:
    document = {
        "metadata": metadata(ledger_name(claim_name)),
        "spec": {"claimName": claim_name, "seats": list(seats)},
    }
    return CLAIM_LEDGERS.decode(json.dumps(document).encode())


def seat(worker: str, **more: Any) -> Document:
    return {
        "workload": worker,
        "workloadUID": f"uid-{worker}",
        "assignmentID": f"assignment-{worker}",
        "ownerID": worker,
        "hostRequest": "1Gi",
        **more,
    }


def pod(
    worker: str = "a",
    *,
    claim_name: str = "",
    meta: Document | None = None,
    status: Document | None = None,
    **spec: Any,
) -> Pod:
    """Return the Pod of a worker, unbound without `nodeName`."""
    owner = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "name": worker,
        "uid": f"uid-{worker}",
        "controller": True,
    }
    claims = [{"name": "gpu", "resourceClaimName": claim_name}] if claim_name else []
    common = metadata(f"orw-{worker}", creationTimestamp=at(), ownerReferences=[owner])
    document = {
        "metadata": common | (meta or {}),
        "spec": {"containers": [container()], "resourceClaims": claims, **spec},
        "status": status or {},
    }
    decoded = full_pod(PODS.decode(json.dumps(document).encode()))
    assert decoded is not None
    return decoded


def condition(type_: str, status: str, reason: str = "", *, since: str = at(), message: str = "") -> Document:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


def unscheduled(reason: str = "Unschedulable", **more: Any) -> Document:
    """Return the status of a Pod that kube-scheduler could not schedule."""
    return {"phase": "Pending", "conditions": [condition("PodScheduled", "False", reason, **more)]}


def api() -> Api:
    """Return the API of an empty server, for components that need one and do not run."""
    server = ApiServer(now=Clock(), new_uid=lambda: "uid", namespaces=())
    return ApiClient(server, Watches(server.store), "test")


@dataclass
class Parts:
    """Synced caches with fleet, queue and activation planner, composed as in the controller."""

    max_seats_per_claim: int = 0
    clock: Clock = field(default_factory=Clock)
    api: Api = field(default_factory=api)
    refusals: Callable[[str], Refusals] | None = None

    def __post_init__(self) -> None:
        self.caches: Caches = make_caches(self.api, NAMESPACE, Random(0))
        self.requests = PlacementRequests(self.max_seats_per_claim, "gpu.example.com")
        self.fleet = Fleet(DRIVER)
        self.scheduling_queue = SchedulingQueue()
        self.fleet_updater = FleetUpdater(self.caches, self.fleet, self.requests, NAMESPACE)
        self.local_state = LocalState.empty(self.caches, NAMESPACE, self.clock, self.clock.monotonic)
        refusals = self.refusals or self.local_state.place_holds.refusals
        self.refused_groups = RefusedGroups(self.clock.monotonic, lambda _worker: None)
        self.activation_planner = ActivationPlanner(
            self.caches,
            self.fleet,
            self.scheduling_queue,
            self.requests,
            refusals,
            refused_groups=self.refused_groups,
        )
        self.fleet_updater.subscribe()
        for informer in self.caches.all():
            for _ in informer.store.replace_in_slices(informer.store.begin_list(), "0"):
                pass

    def put(self, *objects: Workload | Node | ResourceSlice | ResourceClaim | ClaimLedger | Pod) -> None:
        """Put objects into the caches."""
        for obj in objects:
            match obj:
                case Workload():
                    self.caches.workloads.store.apply_write(obj)
                case Node():
                    self.caches.nodes.store.apply_write(obj)
                case ResourceSlice():
                    self.caches.slices.store.apply_write(obj)
                case ResourceClaim():
                    self.caches.claims.store.apply_write(obj)
                case ClaimLedger():
                    self.caches.ledgers.store.apply_write(obj)
                case Pod():
                    self.caches.pods.store.apply_write(obj)

    def host(self, name: str = "node", devices: int = 1, **changes: Any) -> None:
        """Add a node with this many 80 GiB devices."""
        self.put(node(name, **changes), slice_of(name, *(device(f"gpu-{n}") for n in range(devices))))

    def shared(self, name: str, *seats: Document, on: str = "node", device_name: str = "gpu-0") -> None:
        """Add a claim that is allocated on a device of a node, with these seats (by default one)."""
        self.put(
            ledger(name, *(seats or (seat(f"holder-{name}"),))),
            claim(name, allocated=allocation(on, device_name)),
        )

    def waiting(self, name: str, age: int, **spec: Any) -> ObjectKey:
        """Add a worker that has been waiting since `age` minutes after the epoch."""
        status = spec.pop("status", None)
        worker = workload(name, meta={"creationTimestamp": at(minutes=age)}, status=status, **spec)
        self.put(worker)
        key = ObjectKey.of(worker)
        self.scheduling_queue.add(key, worker.creation_order, self.requests.equivalence_class(worker))
        return key


def context(parts: Parts, settings: Settings | None = None, **changes: Any) -> ReconcileContext:
    """Return a reconcile context. `changes` replace its fields."""
    settings = settings or Settings(device_driver=DRIVER, device_class=DRIVER)
    ids = count(1)
    nondeterminism = Nondeterminism(Random(0), parts.clock, lambda: f"id-{next(ids)}")
    live = LiveReader(parts.api, parts.caches, NAMESPACE)
    ledgers = LedgerClient(parts.api, parts.caches, live, NAMESPACE)
    made: dict[str, Any] = {
        "settings": settings,
        "caches": parts.caches,
        "fleet": parts.fleet,
        "scheduling_queue": parts.scheduling_queue,
        "requests": parts.requests,
        "live": live,
        "writer": ObjectWriter(parts.api, parts.caches, live),
        "ledgers": ledgers,
        "book": SeatBook(ledgers, nondeterminism.new_id, ClaimLocks().hold),
        "events": WorkloadEvents(make_recorder(parts.api, settings, nondeterminism)),
        "counters": Counters(parts.clock),
        "local_state": parts.local_state,
        "refused_groups": parts.refused_groups,
        "now": parts.clock,
        "requeue": lambda _: None,
        "activate_next": lambda _: None,
        "self_writes": SelfWriteFilter(lambda _: None, lambda _: None),
    }
    return ReconcileContext(**(made | changes))
