"""The kubelets of all nodes: they start bound Pods and stop deleted ones.

A deleted Pod reaches a final phase before it is removed, as with real kubelets. Tests determine here what a
worker's process does: succeed, fail, or not start.
"""

from __future__ import annotations

from random import Random

from informers.api import ObjectKey, WatchEventType
from simulation.actors.base import Actor, ActorContext, condition
from simulation.actors.fitting import FINAL_PHASES
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import NODES, PODS
from simulation.apiserver.store import Change

KILLED = 137
"""Exit code of a process that was killed."""


class Kubelet(Actor):
    """Moves the Pods of every node through their life cycle."""

    name = "kubelet"

    def __init__(self, context: ActorContext, rng: Random) -> None:
        super().__init__(context, rng)
        self._held: dict[ObjectKey, str] = {}

    def __repr__(self) -> str:
        return f"<Kubelet held={len(self._held)} paused={self._paused}>"

    # Commands.

    def hold(self, pod: ObjectKey, reason: str = "ImagePullBackOff") -> None:
        """Do not start any Pod of that key; its containers wait with that reason."""
        self._held[pod] = reason

    def release(self, pod: ObjectKey) -> None:
        """Start the Pod of that key again."""
        self._held.pop(pod, None)
        self._resync()

    def succeed(self, pod: ObjectKey) -> None:
        """End the Pod's process with exit code 0."""
        self._end(pod, "Succeeded", exit_code=0, message="")

    def fail(self, pod: ObjectKey, message: str = "the process failed") -> None:
        """End the Pod's process with exit code 1."""
        self._end(pod, "Failed", exit_code=1, message=message)

    def disrupt(self, pod: ObjectKey, reason: str = "TerminationByKubelet") -> None:
        """End the Pod (pressure, preemption, shutdown), with condition `DisruptionTarget`."""

        def change(document: Document) -> None:
            status = document["status"]
            status |= {"phase": "Failed", "reason": "Evicted"}
            status["conditions"] = condition(
                status, "DisruptionTarget", "True", timestamp=self._timestamp(), reason=reason
            )

        self._context.server.edit(PODS, pod, change, subresource="status")

    def evict_for_own_fault(self, pod: ObjectKey) -> None:
        """Evict a Pod that used more disk than its limit: without condition `DisruptionTarget`."""
        message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
        self._end(pod, "Failed", exit_code=KILLED, message="", reason="Evicted", pod_message=message)

    def reject(self, pod: ObjectKey, reason: str = "UnexpectedAdmissionError") -> None:
        """Reject the Pod before any container starts."""

        def change(document: Document) -> None:
            document["status"] |= {
                "phase": "Failed",
                "reason": reason,
                "message": f"Pod was rejected: {reason}",
            }

        self._context.server.edit(PODS, pod, change, subresource="status")

    # Reconciling.

    def _on_change(self, change: Change) -> None:
        if change.kind is PODS and change.type is not WatchEventType.DELETED:
            self._enqueue(change.record)
        elif change.kind is NODES and change.type is WatchEventType.ADDED:
            self._enqueue_node(change.record.key.name)

    def _enqueue_node(self, name: str) -> None:
        """Enqueue the Pods that are bound to a new or returned node."""
        for pod in self._context.server.store.all(PODS):
            if pod.document["spec"].get("nodeName") == name:
                self._enqueue(pod)

    def _resync(self) -> None:
        for pod in self._context.server.store.all(PODS):
            self._enqueue(pod)

    def _enqueue(self, pod: Record) -> None:
        if not pod.document["spec"].get("nodeName"):
            return
        delays, key, uid = self._context.delays, pod.key, pod.uid
        if pod.deleting:
            self._schedule(delays.pod_stop_seconds, f"stop {uid}", key, lambda: self._stop(key, uid))
        elif pod.document["status"].get("phase") == "Pending":
            self._schedule(delays.pod_start_seconds, f"start {uid}", key, lambda: self._start(key, uid))

    def _get_managed(self, key: ObjectKey, uid: str) -> Record | None:
        """Return the Pod if it exists and its node does."""
        pod = self._get(PODS, key, uid)
        if pod is None or self._get(NODES, ObjectKey("", pod.document["spec"]["nodeName"])) is None:
            return None
        return pod

    def _start(self, key: ObjectKey, uid: str) -> None:
        pod = self._get_managed(key, uid)
        if pod is None or pod.deleting or pod.document["status"].get("phase") != "Pending":
            return
        held = self._held.get(key)
        state = {"waiting": {"reason": held}} if held else {"running": {"startedAt": self._timestamp()}}

        def change(document: Document) -> None:
            status = document["status"]
            status["containerStatuses"] = _containers(document, state)
            if not held:
                status |= {"phase": "Running", "startTime": self._timestamp()}
                status["conditions"] = condition(status, "Ready", "True", timestamp=self._timestamp())

        self._context.server.edit(PODS, key, change, subresource="status")
        deadline = pod.document["spec"].get("activeDeadlineSeconds")
        if deadline and not held:
            self._schedule(deadline, f"deadline {uid}", key, lambda: self._expire(key, uid))

    def _expire(self, key: ObjectKey, uid: str) -> None:
        pod = self._get_managed(key, uid)
        if pod is not None and not pod.deleting and pod.document["status"].get("phase") == "Running":
            message = "Pod was active on the node longer than the specified deadline"
            self._end(
                key,
                "Failed",
                exit_code=KILLED,
                message="",
                reason="DeadlineExceeded",
                pod_message=message,
            )

    def _stop(self, key: ObjectKey, uid: str) -> None:
        pod = self._get_managed(key, uid)
        if pod is None:
            return
        if pod.document["status"].get("phase") not in FINAL_PHASES:
            self._end(key, "Failed", exit_code=KILLED, message="")
        self._context.server.delete(PODS, key.name, key.namespace, grace_seconds=0)

    def _end(
        self,
        key: ObjectKey,
        phase: str,
        *,
        exit_code: int,
        message: str,
        reason: str = "",
        pod_message: str = "",
    ) -> None:
        """End all containers. Only the kubelet's own decisions give the Pod a reason and a message."""
        ended = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", "message": message}

        def change(document: Document) -> None:
            status = document["status"]
            status["phase"] = phase
            status |= {"reason": reason, "message": pod_message} if reason else {}
            status["containerStatuses"] = _containers(document, {"terminated": ended})
            status["conditions"] = condition(status, "Ready", "False", timestamp=self._timestamp())

        self._context.server.edit(PODS, key, change, subresource="status")


def _containers(document: Document, state: Document) -> list[Document]:
    shared = {"state": state, "ready": "running" in state, "restartCount": 0}
    return [{"name": container["name"], **shared} for container in document["spec"]["containers"]]
