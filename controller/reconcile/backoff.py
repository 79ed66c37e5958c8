"""Back-off of one process: which places a worker avoids, and when it tries again after a rejection.

The state is lost on a restart, which costs one more attempt per place or worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controller.api import convert
from controller.api.core import NodeSpec
from controller.api.dra import ResourceClaim
from controller.api.pods import AnyPod
from controller.api.reasons import ReasonCode, has_code
from controller.api.workload import Workload
from controller.cluster.caches import Caches, controlling_uids
from informers.api import ObjectKey
from placement.types import NO_REFUSALS, FreeDevice, Refusals

PLACE_HOLD_RANGE_SECONDS = (60.0, 30 * 60.0)
SEAT_PAUSE_RANGE_SECONDS = (2 * 60.0, 30 * 60.0)
REJECTION_HOLD_RANGE_SECONDS = (1.0, 300.0)

POD_BURST = 20
POD_INTERVAL_SECONDS = 180.0

NodeProfile = tuple[Mapping[str, str], NodeSpec, Mapping[str, str | int | float], bool]
"""Labels, taints and cordon, allocatable resources, and readiness of a node."""


@dataclass(frozen=True)
class Hold:
    """A pause that lasts twice as long each time."""

    count: int
    seconds: float
    until_seconds: float


def next_hold(before: Hold | None, range_seconds: tuple[float, float], now_seconds: float) -> Hold:
    """Return the pause after this one: twice as long, within a range."""
    shortest, longest = range_seconds
    count, seconds = (0, shortest) if before is None else (before.count, min(before.seconds * 2, longest))
    return Hold(count + 1, seconds, now_seconds + seconds)


@dataclass(frozen=True)
class _RefusingNode:
    """A node that refused a worker, with its properties at that time."""

    profile: NodeProfile | None
    ended_workers: int
    hold: Hold


@dataclass
class _RefusedWorker:
    """The place refusals of one worker since it last ran."""

    nodes: dict[str, _RefusingNode] = field(default_factory=dict)
    asks_first: bool = False
    """Whether its own claim has to ask kube-scheduler before the next seat."""
    was_silent: bool = False
    """Whether its last Pod on a claim of others got no result from a scheduler."""
    refusals: int = 0
    pause: Hold | None = None
    """The pause before its next seat, from the second refusal on."""


class PlaceHolds:
    """Nodes that refused a worker, and claims that lost their device to a taint.

    A hold on a node closes all its claims to that worker. It ends with its time, when the node changes, or
    when a worker of ours there has ended. Without it one refusal could repeat forever while other capacity is
    free (contract §5.7). The work grows with the refusals of one worker, not with workers or claims.
    """

    def __init__(self, caches: Caches, namespace: str, monotonic: Callable[[], float]) -> None:
        self._caches = caches
        self._namespace = namespace
        self._monotonic = monotonic
        self._workers: dict[str, _RefusedWorker] = {}
        self._closed_claims: dict[str, tuple[ResourceClaim, Hold]] = {}
        """Closed to everybody, by UID: the claim as it was, and the hold."""
        self._ended_workers: Counter[str] = Counter()
        """By node."""

    def __repr__(self) -> str:
        return f"<PlaceHolds workers={len(self._workers)} claims={len(self._closed_claims)}>"

    def add(self, worker_uid: str, claim: ResourceClaim) -> None:
        """Close the node of a claim whose place has just refused the worker; each time for twice as long.

        The worker's own claim comes next, because kube-scheduler knows more than this controller. From the
        second refusal on, the worker also gets its next seat only after 2 to 30 minutes.
        """
        worker = self._workers.setdefault(worker_uid, _RefusedWorker())
        now_seconds = self._monotonic()
        if worker.refusals:
            worker.pause = next_hold(worker.pause, SEAT_PAUSE_RANGE_SECONDS, now_seconds)
        worker.refusals += 1
        worker.asks_first = True
        name = convert.claim_node(claim)
        if name:
            before = worker.nodes.get(name)
            hold = next_hold(before.hold if before else None, PLACE_HOLD_RANGE_SECONDS, now_seconds)
            worker.nodes[name] = _RefusingNode(self._profile(name), self._ended_workers[name], hold)

    def ask_first(self, worker_uid: str) -> None:
        """Make the worker's own claim next after a Pod without a result. No node has refused it."""
        worker = self._workers.setdefault(worker_uid, _RefusedWorker())
        worker.asks_first = worker.was_silent = True

    def was_silent(self, worker_uid: str) -> bool:
        """Return whether the worker's own claim is next because its last Pod got no result."""
        worker = self._workers.get(worker_uid)
        return worker is not None and worker.was_silent

    def close_to_all(self, claim: ResourceClaim) -> None:
        """Close a claim to every worker; each time for twice as long, until it is allocated anew."""
        before = self._closed_claims.get(claim.metadata.uid)
        hold = next_hold(before[1] if before else None, PLACE_HOLD_RANGE_SECONDS, self._monotonic())
        self._closed_claims[claim.metadata.uid] = (claim, hold)

    def record_asked(self, worker_uid: str) -> None:
        """Record that the worker's own claim got no device, or cannot be created: a seat may be next."""
        if worker_uid in self._workers:
            self._workers[worker_uid].asks_first = self._workers[worker_uid].was_silent = False

    def asks_first(self, worker_uid: str) -> bool:
        """Return whether the worker's own claim comes before a seat, whatever the placement strategy."""
        worker = self._workers.get(worker_uid)
        return worker is not None and worker.asks_first

    def refusals(self, worker_uid: str) -> Refusals:
        """Return what is closed to this worker now."""
        claims, worker = self._claims_closed_to_all(), self._workers.get(worker_uid)
        if worker is None:
            return Refusals(claims=claims) if claims else NO_REFUSALS
        for name, node in tuple(worker.nodes.items()):
            if self._profile(name) != node.profile:
                del worker.nodes[name]
        now_seconds = self._monotonic()
        return Refusals(
            claims=claims,
            nodes=frozenset(
                name
                for name, node in worker.nodes.items()
                if now_seconds < node.hold.until_seconds and node.ended_workers == self._ended_workers[name]
            ),
            counts={name: node.hold.count for name, node in worker.nodes.items()},
            may_join=not worker.asks_first
            and (worker.pause is None or worker.pause.until_seconds <= now_seconds),
        )

    def observe_status(self, before: Workload, after: Workload) -> None:
        """Close a node that another process left; otherwise two replicas keep moving the worker.

        A claim without a device closes nothing: this process may have counted the refusal while it had one.
        """
        name, status = before.status.claim_name, after.status
        if not name or status.claim_name or not has_code(status.reason, ReasonCode.REPLACING_WEDGED_CLAIM):
            return
        claim = self._caches.claims.store.get(ObjectKey(self._namespace, name))
        node = convert.claim_node(claim) if claim is not None else None
        if claim is not None and node and node not in self.refusals(after.uid).nodes:
            self.add(after.uid, claim)

    def record_ended(self, node: str) -> None:
        """Open a node again to all workers that it refused, because a worker of ours there has ended."""
        self._ended_workers[node] += 1

    def forget(self, worker_uid: str) -> None:
        """Drop all refusals of a worker."""
        self._workers.pop(worker_uid, None)

    def _claims_closed_to_all(self) -> frozenset[str]:
        now_seconds = self._monotonic()
        for uid, (before, _) in tuple(self._closed_claims.items()):
            claim = self._caches.claims.store.get(ObjectKey(self._namespace, before.metadata.name))
            is_same = claim is not None and claim.metadata.uid == uid
            if claim is None or not is_same or claim.status.allocation != before.status.allocation:
                del self._closed_claims[uid]
        held = self._closed_claims.items()
        return frozenset(uid for uid, (_, hold) in held if now_seconds < hold.until_seconds)

    def _profile(self, name: str) -> NodeProfile | None:
        """Return the visible properties by which kube-scheduler and the kubelet judge a node."""
        node = self._caches.nodes.store.get(ObjectKey("", name))
        if node is None:
            return None
        is_ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
        return (node.metadata.labels, node.spec, node.status.allocatable, is_ready)


class PodBudget:
    """A bound on the Pods of each worker: 20 at once, then one every 3 minutes, so at most 40 in any hour.

    It is the last line of defense behind the other back-offs, whatever deletes or refuses the Pods. It counts
    the Pods in the cache, so a lost answer counts as well.
    """

    def __init__(self, caches: Caches, namespace: str, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._spent_until_seconds: dict[str, float] = {}
        """By worker UID: the time at which its whole budget is available again."""

        def pod_changed(old: AnyPod | None, new: AnyPod | None) -> None:
            if old is None and new is not None and caches.pods.store.synced:
                for worker_uid in controlling_uids(new, namespace):
                    self.spend(worker_uid)

        caches.pods.on_change(pod_changed, inline=True)

    def __repr__(self) -> str:
        return f"<PodBudget workers={len(self._spent_until_seconds)}>"

    def spend(self, worker_uid: str) -> None:
        """Count one new Pod of a worker."""
        spent_until = self._spent_until_seconds.get(worker_uid, 0.0)
        self._spent_until_seconds[worker_uid] = max(spent_until, self._monotonic()) + POD_INTERVAL_SECONDS

    def wait_seconds(self, worker_uid: str) -> float:
        """Return how long this worker waits before its next Pod."""
        spent_until = self._spent_until_seconds.get(worker_uid, 0.0)
        return max(0.0, spent_until - self._monotonic() - (POD_BURST - 1) * POD_INTERVAL_SECONDS)

    def forget(self, worker_uid: str) -> None:
        """Drop the count of a deleted worker."""
        self._spent_until_seconds.pop(worker_uid, None)


class RejectionBackoff:
    """Back-off of workers whose Pod the API server or a kubelet rejects (quota, webhook, full node).

    Each attempt books a seat, writes a status, and undoes both. Activations do not shorten the back-off:
    otherwise a full quota would turn every freed seat into a storm of writes.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._holds: dict[str, Hold] = {}

    def __repr__(self) -> str:
        return f"<RejectionBackoff held={len(self._holds)}>"

    def add(self, worker_uid: str) -> float:
        """Count one more rejection; returns the seconds to wait, twice as many as before."""
        hold = next_hold(self._holds.get(worker_uid), REJECTION_HOLD_RANGE_SECONDS, self._monotonic())
        self._holds[worker_uid] = hold
        return hold.seconds

    def count(self, worker_uid: str) -> int:
        """Return the number of rejections since the worker last ran."""
        hold = self._holds.get(worker_uid)
        return 0 if hold is None else hold.count

    def remaining_seconds(self, worker_uid: str) -> float:
        """Return how long this worker still has to wait."""
        hold = self._holds.get(worker_uid)
        return 0.0 if hold is None else max(0.0, hold.until_seconds - self._monotonic())

    def forget(self, worker_uid: str) -> None:
        """End the back-off of a worker."""
        self._holds.pop(worker_uid, None)


class RefusedDevices:
    """The time for which kube-scheduler has refused each worker's Pod although the same device is free."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[FreeDevice, float]] = {}

    def __repr__(self) -> str:
        return f"<RefusedDevices workers={len(self._seen)}>"

    def observe(self, worker_uid: str, device: FreeDevice | None) -> float:
        """Record which device is free while the Pod is refused. Return how many seconds it has been free."""
        if device is None:
            self.forget(worker_uid)
            return 0.0
        seen = self._seen.get(worker_uid)
        if seen is None or seen[0] != device:
            seen = self._seen[worker_uid] = (device, self._monotonic())
        return self._monotonic() - seen[1]

    def forget(self, worker_uid: str) -> None:
        """Drop the refusals of a worker."""
        self._seen.pop(worker_uid, None)
