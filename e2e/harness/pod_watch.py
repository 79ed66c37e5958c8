"""An independent witness of Pods: which ran, were sent away or started again, and how their process ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from e2e.controlplane import Cluster, Object
from e2e.harness.raw_watch import watched


@dataclass
class SeenPod:
    """What was seen of one Pod (one UID) so far."""

    name: str
    node: str = ""
    asked_to_go: datetime | None = None  # when its grace period began
    gone: bool = False
    restarts: int = 0
    exit_code: int | None = None
    ended: datetime | None = None


class PodWitness:
    """Follows every version of every Pod of a namespace."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenPod] = {}

    def __repr__(self) -> str:
        return f"<PodWitness pods={len(self._seen)}>"

    @property
    def pods(self) -> list[SeenPod]:
        """Every Pod that was seen, oldest first."""
        return list(self._seen.values())

    def named(self, name: str) -> SeenPod:
        """The only Pod of that name."""
        (pod,) = (pod for pod in self.pods if pod.name == name)
        return pod

    def disturbed(self) -> list[str]:
        """The Pods that had a node and were nevertheless asked to go, went, or started again."""
        return [
            pod.name
            for pod in self.pods
            if pod.node and (pod.gone or pod.asked_to_go is not None or pod.restarts)
        ]

    def see(self, kind: str, pod: Object) -> None:
        metadata, status = pod["metadata"], pod.get("status", {})
        seen = self._seen.setdefault(metadata["uid"], SeenPod(metadata["name"]))
        seen.node = pod["spec"].get("nodeName", seen.node)
        seen.gone = seen.gone or kind == "DELETED"
        if moment := metadata.get("deletionTimestamp"):
            grace = metadata.get("deletionGracePeriodSeconds", 0)
            began = datetime.fromtimestamp(_time(moment).timestamp() - grace, _time(moment).tzinfo)
            seen.asked_to_go = min(seen.asked_to_go or began, began)
        for container in status.get("containerStatuses", []):
            seen.restarts = max(seen.restarts, container["restartCount"])
            ended = container["state"].get("terminated") or {}
            # Without a time the kubelet does not know (ContainerStatusUnknown): its 137 means nothing.
            if finished := ended.get("finishedAt"):
                seen.exit_code, seen.ended = ended["exitCode"], _time(finished)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@contextmanager
def witnessed_pods(cluster: Cluster, namespace: str) -> Iterator[PodWitness]:
    """Watch a namespace's Pods from now until the block ends."""
    witness = PodWitness()
    collection = f"/api/v1/namespaces/{namespace}/pods"
    for pod in cluster.api.items(collection):
        witness.see("ADDED", pod)
    with watched(cluster, collection, witness.see):
        yield witness
