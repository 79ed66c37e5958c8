"""An independent observer of Pods: nodes, deletions, restarts, and exit codes of their containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from e2e.controlplane import Cluster, Object
from e2e.harness.raw_watch import watched


@dataclass
class SeenPod:
    """The observations of one Pod (one UID)."""

    name: str
    node: str = ""
    deletion_requested: datetime | None = None  # the start of its grace period
    gone: bool = False
    restarts: int = 0
    exit_code: int | None = None
    ended: datetime | None = None


class PodWitness:
    """Observes every version of every Pod in a namespace."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenPod] = {}

    def __repr__(self) -> str:
        return f"<PodWitness pods={len(self._seen)}>"

    @property
    def pods(self) -> list[SeenPod]:
        """All observed Pods, oldest first."""
        return list(self._seen.values())

    def named(self, name: str) -> SeenPod:
        """Return the only Pod of that name."""
        (pod,) = (pod for pod in self.pods if pod.name == name)
        return pod

    def disturbed(self) -> list[str]:
        """Return the bound Pods that were deleted or restarted."""
        return [
            pod.name
            for pod in self.pods
            if pod.node and (pod.gone or pod.deletion_requested is not None or pod.restarts)
        ]

    def record(self, kind: str, pod: Object) -> None:
        metadata, status = pod["metadata"], pod.get("status", {})
        seen = self._seen.setdefault(metadata["uid"], SeenPod(metadata["name"]))
        seen.node = pod["spec"].get("nodeName", seen.node)
        seen.gone = seen.gone or kind == "DELETED"
        if deleted_at := metadata.get("deletionTimestamp"):
            grace = metadata.get("deletionGracePeriodSeconds", 0)
            began = datetime.fromtimestamp(_time(deleted_at).timestamp() - grace, _time(deleted_at).tzinfo)
            seen.deletion_requested = min(seen.deletion_requested or began, began)
        for container in status.get("containerStatuses", []):
            seen.restarts = max(seen.restarts, container["restartCount"])
            ended = container["state"].get("terminated") or {}
            # Without a time, 137 is not the real exit code: the kubelet lost it (ContainerStatusUnknown).
            if finished := ended.get("finishedAt"):
                seen.exit_code, seen.ended = ended["exitCode"], _time(finished)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@contextmanager
def witnessed_pods(cluster: Cluster, namespace: str) -> Iterator[PodWitness]:
    """Observe the Pods of a namespace while the block runs."""
    witness = PodWitness()
    collection = f"/api/v1/namespaces/{namespace}/pods"
    for pod in cluster.api.items(collection):
        witness.record("ADDED", pod)
    with watched(cluster, collection, witness.record):
        yield witness
