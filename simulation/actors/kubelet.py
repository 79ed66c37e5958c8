"""The kubelets of all nodes: they start bound Pods, and end those that are deleted.

A Pod that is deleted reaches a final phase before it goes, as with real kubelets. What a test wants of a
worker's process (to succeed, to fail, not to start) it commands here.
"""

from __future__ import annotations

from random import Random

from informers.api import ObjectKey, WatchEventType
from simulation.actors.base import Actor, Stage, condition
from simulation.actors.fitting import FINAL_PHASES
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import NODES, PODS
from simulation.apiserver.store import Change

KILLED = 137
"""Exit code of a process that was killed."""


class Kubelet(Actor):
    """Moves the Pods of every node along."""

    name = "kubelet"

    def __init__(self, stage: Stage, rng: Random) -> None:
        super().__init__(stage, rng)
        self._held: dict[ObjectKey, str] = {}

    def __repr__(self) -> str:
        return f"<Kubelet held={len(self._held)} paused={self._paused}>"

    # Commands.

    def hold(self, pod: ObjectKey, reason: str = "ImagePullBackOff") -> None:
        """Do not start the Pod of that key, whenever it comes; its containers wait for that reason."""
        self._held[pod] = reason

    def let_start(self, pod: ObjectKey) -> None:
        """Start it after all."""
        self._held.pop(pod, None)
        self._look_at_everything()

    def succeed(self, pod: ObjectKey) -> None:
        """Its process ends well."""
        self._end(pod, "Succeeded", exit_code=0, message="")

    def fail(self, pod: ObjectKey, message: str = "the process failed") -> None:
        """Its process fails."""
        self._end(pod, "Failed", exit_code=1, message=message)

    def disrupt(self, pod: ObjectKey, reason: str = "TerminationByKubelet") -> None:
        """The node takes the Pod away (pressure, preemption, shutdown): `DisruptionTarget` says so."""

        def change(document: Document) -> None:
            status = document["status"]
            status |= {"phase": "Failed", "reason": "Evicted"}
            status["conditions"] = condition(
                status, "DisruptionTarget", "True", moment=self._moment(), reason=reason
            )

        self._stage.server.edit(PODS, pod, change, subresource="status")

    def reject(self, pod: ObjectKey, reason: str = "UnexpectedAdmissionError") -> None:
        """The kubelet refuses the Pod before any container starts."""

        def change(document: Document) -> None:
            document["status"] |= {
                "phase": "Failed",
                "reason": reason,
                "message": f"Pod was rejected: {reason}",
            }

        self._stage.server.edit(PODS, pod, change, subresource="status")

    # What it does by itself.

    def _on_change(self, change: Change) -> None:
        if change.kind is PODS and change.type is not WatchEventType.DELETED:
            self._consider(change.record)
        elif change.kind is NODES and change.type is WatchEventType.ADDED:
            self._look_at_node(change.record.key.name)

    def _look_at_node(self, name: str) -> None:
        """A node came (back): its kubelet takes up the Pods that are bound there."""
        for pod in self._stage.server.store.all(PODS):
            if pod.document["spec"].get("nodeName") == name:
                self._consider(pod)

    def _look_at_everything(self) -> None:
        for pod in self._stage.server.store.all(PODS):
            self._consider(pod)

    def _consider(self, pod: Record) -> None:
        if not pod.document["spec"].get("nodeName"):
            return
        delays, key, uid = self._stage.delays, pod.key, pod.uid
        if pod.deleting:
            self._later(delays.pod_stop_seconds, f"stop {uid}", key, lambda: self._stop(key, uid))
        elif pod.document["status"].get("phase") == "Pending":
            self._later(delays.pod_start_seconds, f"start {uid}", key, lambda: self._start(key, uid))

    def _mine(self, key: ObjectKey, uid: str) -> Record | None:
        """The Pod, if it is there and its node is."""
        pod = self._find(PODS, key, uid)
        if pod is None or self._find(NODES, ObjectKey("", pod.document["spec"]["nodeName"])) is None:
            return None
        return pod

    def _start(self, key: ObjectKey, uid: str) -> None:
        pod = self._mine(key, uid)
        if pod is None or pod.deleting or pod.document["status"].get("phase") != "Pending":
            return
        held = self._held.get(key)
        state = {"waiting": {"reason": held}} if held else {"running": {"startedAt": self._moment()}}

        def change(document: Document) -> None:
            status = document["status"]
            status["containerStatuses"] = _containers(document, state)
            if not held:
                status |= {"phase": "Running", "startTime": self._moment()}
                status["conditions"] = condition(status, "Ready", "True", moment=self._moment())

        self._stage.server.edit(PODS, key, change, subresource="status")

    def _stop(self, key: ObjectKey, uid: str) -> None:
        pod = self._mine(key, uid)
        if pod is None:
            return
        if pod.document["status"].get("phase") not in FINAL_PHASES:
            self._end(key, "Failed", exit_code=KILLED, message="")
        self._stage.server.delete(PODS, key.name, key.namespace, grace_seconds=0)

    def _end(self, key: ObjectKey, phase: str, *, exit_code: int, message: str) -> None:
        ended = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", "message": message}

        def change(document: Document) -> None:
            status = document["status"]
            status["phase"] = phase
            status["containerStatuses"] = _containers(document, {"terminated": ended})
            status["conditions"] = condition(status, "Ready", "False", moment=self._moment())

        self._stage.server.edit(PODS, key, change, subresource="status")


def _containers(document: Document, state: Document) -> list[Document]:
    shared = {"state": state, "ready": "running" in state, "restartCount": 0}
    return [{"name": container["name"], **shared} for container in document["spec"]["containers"]]
