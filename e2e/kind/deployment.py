"""The controller as it is installed: the Deployment's Pods, started for a test and stopped after it.

Its flags are the manifest's, then those of `e2e.harness.program` that keep the clock out of what a test sees,
then the test's own; the last one counts. What the Pods log is collected while they live, since it goes with
them.
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
from e2e.harness.program import DEFAULT_FLAGS, require_no_faults
from e2e.harness.raw_watch import watched

REPLICAS = 2
CONTROLLER_PODS = f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/pods"
START_SECONDS = 90
STOP_SECONDS = 60

FLAGS = {"--retry-interval": DEFAULT_FLAGS["--retry-interval"], "--log-format": "json"}


class LogCollector:
    """Follows the log of every controller Pod into a file of its own, from its start to its end."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._followers: dict[tuple[str, int], subprocess.Popen[bytes]] = {}

    def __repr__(self) -> str:
        return f"<LogCollector followed={len(self._followers)}>"

    @property
    def text(self) -> str:
        """Everything logged so far."""
        return "".join(path.read_text() for path in sorted(self._folder.glob("controller-*.log")))

    def see(self, _kind: str, pod: Object) -> None:
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
    """The installed controller at work."""

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
        """The name of the Pod that holds the lease; empty if nobody does."""
        lease = self._cluster.api.find(LEASE)
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        return next((name for name in self._names() if holder.startswith(name)), "")

    def await_leader(self, *, other_than: str = "") -> str:
        """Return the leader once there is one, and not this one."""

        def found() -> str | None:
            leader = self.leader
            return leader if leader and leader != other_than else None

        return wait_until(found, "nobody leads", timeout_seconds=START_SECONDS)

    def await_rollout(self) -> None:
        """Return once every replica is of the newest revision and ready, and no other is left."""

        def complete() -> bool:
            deployment = self._cluster.api.get(DEPLOYMENT)
            status = deployment["status"]
            return (
                status.get("observedGeneration") == deployment["metadata"]["generation"]
                and status.get("updatedReplicas") == status.get("readyReplicas") == REPLICAS
                and len(self._names()) == REPLICAS
            )

        wait_until(complete, "the Deployment is not rolled out", timeout_seconds=START_SECONDS)

    def stop(self) -> int:
        """Scale to 0; return the worst exit status of the Pods that this ended."""
        ended = {pod.name for pod in self.pods.pods if not pod.gone}
        change_deployment(self._cluster, _replicas(0))
        wait_until(lambda: not self._names(), "the controller's Pods stay", timeout_seconds=STOP_SECONDS)
        codes = [pod.exit_code for pod in self.pods.pods if pod.name in ended]
        assert None not in codes, "a Pod went without its status having been seen"
        return max((code for code in codes if code is not None), default=0)

    def _names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._cluster.api.items(CONTROLLER_PODS)]


@contextmanager
def running_deployment(
    cluster: Cluster, folder: Path, flags: Mapping[str, str]
) -> Iterator[RunningDeployment]:
    """Run both replicas while the block runs; none of them may have logged an error."""
    logs = LogCollector(cluster, folder)
    arguments = [f"{name}={value}" for name, value in {**FLAGS, **flags}.items()]
    shipped = cluster.api.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"][0]["args"]

    def with_flags(deployment: Object) -> None:
        deployment["spec"]["replicas"] = REPLICAS
        deployment["spec"]["template"]["spec"]["containers"][0]["args"] = [*shipped, *arguments]

    def as_shipped(deployment: Object) -> None:
        deployment["spec"]["replicas"] = 0
        deployment["spec"]["template"]["spec"]["containers"][0]["args"] = shipped

    with witnessed_pods(cluster, CONTROLLER_NAMESPACE) as pods, watched(cluster, CONTROLLER_PODS, logs.see):
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
                    lambda: not cluster.api.items(CONTROLLER_PODS), "Pods stay", timeout_seconds=STOP_SECONDS
                )
            logs.close()
    require_no_faults(logs.text)


def change_deployment(cluster: Cluster, change: Callable[[Object], None]) -> None:
    """Write a change of the Deployment; its controller writes to it as well, so try again on a conflict."""

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

    wait_until(written, "the Deployment cannot be written", timeout_seconds=STOP_SECONDS)


def _replicas(count: int) -> Callable[[Object], None]:
    def change(deployment: Object) -> None:
        deployment["spec"]["replicas"] = count

    return change
