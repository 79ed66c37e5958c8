"""The controller as installed: the Pods of the Deployment, started for a test and stopped after it.

The flags of the manifest come first, then those of `e2e.harness.program` that turn off timers, then the flags
of the test. The last value of a flag wins. Logs are collected while the Pods run, because they are lost with
the Pods.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.controlplane import CONTROLLER_NAMESPACE, ApiRefused, Cluster, Object, wait_until
from e2e.controlplane.api import CONFLICT
from e2e.controlplane.external import DEPLOYMENT
from e2e.harness.in_pod import LEASE
from e2e.harness.pod_watch import PodWitness, witnessed_pods
from e2e.harness.program import DEFAULT_FLAGS, require_no_errors
from e2e.harness.raw_watch import watched

REPLICAS = 2
CONTROLLER_PODS = f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/pods"
START_SECONDS = 90
STOP_SECONDS = 60

FLAGS = {"--retry-interval": DEFAULT_FLAGS["--retry-interval"], "--log-format": "json"}


class LogCollector:
    """Follows the log of every controller Pod into its own file, from start to end."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._followers: dict[tuple[str, int], subprocess.Popen[bytes]] = {}

    def __repr__(self) -> str:
        return f"<LogCollector followed={len(self._followers)}>"

    @property
    def text(self) -> str:
        """All logs so far."""
        return "".join(path.read_text() for path in sorted(self._folder.glob("controller-*.log")))

    def record(self, _kind: str, pod: Object) -> None:
        for container in pod.get("status", {}).get("containerStatuses", []):
            name, restart = pod["metadata"]["name"], container["restartCount"]
            if "running" in container["state"] and (name, restart) not in self._followers:
                self._followers[name, restart] = self._follow(name, restart)

    def _follow(self, name: str, restart: int) -> subprocess.Popen[bytes]:
        command = [str(self._cluster.kubectl_path), f"--kubeconfig={self._cluster.admin_kubeconfig}"]
        with (self._folder / f"controller-{name}-{restart}.log").open("wb") as output:
            return subprocess.Popen(
                [*command, "logs", "--follow", f"--namespace={CONTROLLER_NAMESPACE}", name],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=self._cluster.kubectl_environment(),
            )

    def close(self) -> None:
        for follower in self._followers.values():
            follower.terminate()
            follower.wait()


class RunningDeployment:
    """The running Deployment."""

    def __init__(self, cluster: Cluster, logs: LogCollector, pods: PodWitness) -> None:
        self._cluster = cluster
        self._logs = logs
        self.pods = pods

    def __repr__(self) -> str:
        return f"<RunningDeployment {self.pods!r}>"

    @property
    def log(self) -> str:
        return self._logs.text

    @property
    def leader(self) -> str:
        """The name of the Pod that holds the lease, or an empty string."""
        lease = self._cluster.api.find(LEASE)
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        return next((name for name in self._names() if holder.startswith(name)), "")

    def await_leader(self, *, other_than: str = "") -> str:
        """Wait for a leader other than the given one, and return its name."""

        def found() -> str | None:
            leader = self.leader
            return leader if leader and leader != other_than else None

        return wait_until(found, "there is no leader", timeout_seconds=START_SECONDS)

    def await_rollout(self) -> None:
        """Wait until all replicas have the newest revision and are ready, and no others are left."""

        def complete() -> bool:
            deployment = self._cluster.api.get(DEPLOYMENT)
            status = deployment["status"]
            return (
                status.get("observedGeneration") == deployment["metadata"]["generation"]
                and status.get("updatedReplicas") == status.get("readyReplicas") == REPLICAS
                and len(self._names()) == REPLICAS
            )

        wait_until(complete, "the rollout of the Deployment is not complete", timeout_seconds=START_SECONDS)

    def stop(self) -> int:
        """Scale to 0, and return the highest exit status of the Pods that ended."""
        ended = {pod.name for pod in self.pods.pods if not pod.gone}
        change_deployment(self._cluster, _replicas(0))
        wait_until(lambda: not self._names(), "controller Pods are left", timeout_seconds=STOP_SECONDS)
        codes = [pod.exit_code for pod in self.pods.pods if pod.name in ended]
        assert None not in codes, "the exit status of a Pod was not observed"
        return max((code for code in codes if code is not None), default=0)

    def _names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._cluster.api.items(CONTROLLER_PODS)]


@contextmanager
def running_deployment(
    cluster: Cluster, folder: Path, flags: Mapping[str, str]
) -> Iterator[RunningDeployment]:
    """Run both replicas while the block runs. Raises `ControllerError` if one has logged an error."""
    logs = LogCollector(cluster, folder)
    arguments = [f"{name}={value}" for name, value in {**FLAGS, **flags}.items()]
    shipped = cluster.api.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"][0]["args"]

    def with_flags(deployment: Object) -> None:
        deployment["spec"]["replicas"] = REPLICAS
        deployment["spec"]["template"]["spec"]["containers"][0]["args"] = [*shipped, *arguments]

    def as_shipped(deployment: Object) -> None:
        deployment["spec"]["replicas"] = 0
        deployment["spec"]["template"]["spec"]["containers"][0]["args"] = shipped

    with (
        witnessed_pods(cluster, CONTROLLER_NAMESPACE) as pods,
        watched(cluster, CONTROLLER_PODS, logs.record),
    ):
        running = RunningDeployment(cluster, logs, pods)
        try:
            change_deployment(cluster, with_flags)
            running.await_rollout()
            wait_until(lambda: "Started reconciling" in logs.text, "no leader", timeout_seconds=START_SECONDS)
            yield running
        finally:
            if cluster.api.find(DEPLOYMENT):  # a test may have uninstalled it
                change_deployment(cluster, as_shipped)
                wait_until(
                    lambda: not cluster.api.items(CONTROLLER_PODS),
                    "controller Pods are left",
                    timeout_seconds=STOP_SECONDS,
                )
            logs.close()
    require_no_errors(logs.text)


def change_deployment(cluster: Cluster, change: Callable[[Object], None]) -> None:
    """Change the Deployment, and retry on a conflict, because the Deployment controller writes it too."""

    def written() -> bool:
        deployment = cluster.api.get(DEPLOYMENT)
        change(deployment)
        try:
            cluster.api.replace(DEPLOYMENT, deployment)
        except ApiRefused as error:
            if error.status == CONFLICT:
                return False
            raise
        return True

    wait_until(written, "the Deployment cannot be changed", timeout_seconds=STOP_SECONDS)


def _replicas(count: int) -> Callable[[Object], None]:
    def change(deployment: Object) -> None:
        deployment["spec"]["replicas"] = count

    return change
