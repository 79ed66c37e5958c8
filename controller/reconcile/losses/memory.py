"""Memory of one process about lost Pods: which went last, and how long each worker waits for its next one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.api.core import Pod
from controller.api.dra import AllocatedDevices, ResourceClaim
from controller.api.pods import AnyPod
from controller.cluster.caches import Caches, controlling_workload
from controller.reconcile.backoff import Hold, next_hold


@dataclass(frozen=True)
class LostPod:
    """What the last version of a lost Pod showed."""

    had_run: bool
    was_bound: bool
    reason: str


LOSS_DELAY_RANGE_SECONDS = (1.0, 300.0)
"""Pauses before the Pod of a worker is created again, each twice as long as the one before."""

STEADY_SECONDS = 600.0
"""A Pod that ran this long clears the pauses."""


class LostPods:
    """Worker Pods that went, and how often Pods of each worker were lost in a row."""

    def __init__(self, caches: Caches, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._gone: dict[str, Pod] = {}
        """The last version of the last Pod that went, by worker UID."""
        self._running_since: dict[str, float] = {}
        self._holds: dict[str, Hold] = {}
        self._unreported: dict[str, LostPod] = {}
        self._causes: dict[str, str] = {}
        """Why this process deleted a worker's Pod, by Pod UID."""
        caches.pods.on_change(self._pod_changed, inline=True)

    def __repr__(self) -> str:
        return f"<LostPods gone={len(self._gone)} held={len(self._holds)}>"

    def record_cause(self, pod: Pod, cause: str) -> None:
        """Record why this process deletes a Pod that runs."""
        self._causes[pod.metadata.uid] = cause

    def take_cause(self, pod: Pod) -> str:
        """Return, once, why this process deleted a Pod; empty if others did."""
        return self._causes.pop(pod.metadata.uid, "")

    def take(self, worker_uid: str) -> Pod | None:
        """Return, once, the last Pod of a worker that went."""
        return self._gone.pop(worker_uid, None)

    def has_run(self, worker_uid: str) -> bool:
        """Return whether this process saw a Pod of the worker run since the last loss."""
        return worker_uid in self._running_since

    def add(self, worker_uid: str) -> float:
        """Count a loss; returns the seconds to wait before the next Pod."""
        now_seconds = self._monotonic()
        ran_since = self._running_since.pop(worker_uid, now_seconds)
        before = None if now_seconds - ran_since >= STEADY_SECONDS else self._holds.get(worker_uid)
        hold = self._holds[worker_uid] = next_hold(before, LOSS_DELAY_RANGE_SECONDS, now_seconds)
        return hold.seconds

    def remaining_seconds(self, worker_uid: str) -> float:
        """Return how long this worker still waits for its next Pod."""
        hold = self._holds.get(worker_uid)
        return 0.0 if hold is None else max(0.0, hold.until_seconds - self._monotonic())

    def keep_unreported(self, worker_uid: str, lost: LostPod) -> None:
        """Keep a loss for the status write that precedes the next Pod."""
        self._unreported[worker_uid] = lost

    def unreported(self, worker_uid: str) -> LostPod | None:
        """Return the loss that the next status write has to report."""
        return self._unreported.get(worker_uid)

    def record_reported(self, worker_uid: str) -> None:
        """Record that the status reports the loss."""
        self._unreported.pop(worker_uid, None)

    def forget(self, worker_uid: str) -> None:
        """Drop everything about a worker."""
        self._gone.pop(worker_uid, None)
        self._running_since.pop(worker_uid, None)
        self._holds.pop(worker_uid, None)
        self._unreported.pop(worker_uid, None)

    def _pod_changed(self, old: AnyPod | None, new: AnyPod | None) -> None:
        pod = new or old
        owner = None if pod is None else controlling_workload(pod)
        if owner is None or not isinstance(pod, Pod):
            return
        if new is None:
            self._gone[owner.uid] = pod
        elif pod.status.phase == "Running":
            self._running_since.setdefault(owner.uid, self._monotonic())


class FirstDevices:
    """The devices of its claim with which this process first saw each worker's Pod."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, AllocatedDevices | None]] = {}

    def __repr__(self) -> str:
        return f"<FirstDevices seen={len(self._seen)}>"

    def have_changed(self, worker_uid: str, pod: Pod, claim: ResourceClaim) -> bool:
        """Return whether the claim now has other devices than when this Pod was first seen."""
        allocation = claim.status.allocation
        devices = None if allocation is None else allocation.devices
        seen = self._seen.get(worker_uid)
        if seen is None or seen[0] != pod.metadata.uid:
            seen = self._seen[worker_uid] = (pod.metadata.uid, devices)
        return seen[1] != devices

    def forget(self, worker_uid: str) -> None:
        """Drop the Pod of a worker."""
        self._seen.pop(worker_uid, None)
