"""Uninstallation as documented in docs/operations.md: no object is left, and none is stuck.

Each test installs into its own control plane, because it deletes namespaces and kinds. The commands are read
from the document and run in a shell, as an operator would run them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.controlplane import WORKER_NAMESPACE, Cluster, ControlPlane, wait_until
from e2e.controlplane.cluster import CHECKOUT, CRDS
from e2e.controlplane.provider import Provider, selected_provider
from e2e.harness.program import running_controller
from e2e.harness.workloads import WorkloadClient, one_gpu_nodes, workload

DOCUMENT = CHECKOUT / "docs" / "operations.md"
NAMESPACE = f"/api/v1/namespaces/{WORKER_NAMESPACE}"
COMMAND_SECONDS = 60
GONE_SECONDS = 60
LABEL = "app.kubernetes.io/name=open-rl-scheduler"
CLUSTER_WIDE = (
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
)

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        selected_provider(os.environ) is not Provider.LOCAL,
        reason="never uninstalls from an existing cluster",
    ),
]

Shell = Callable[[str], str]


def blocks() -> list[str]:
    """Return the console blocks of the section on uninstalling, in order, without an overlay."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("### Uninstall\n")[2].partition("\n## ")[0]
    found = re.findall(r"```console\n(.*?)```", section.replace("<overlay>", "manifests"), re.DOTALL)
    assert len(found) == 4, "uninstall in order; diagnose a stuck one; finish it with a controller; manually"
    return found


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """Start a control plane for this test alone, with everything installed and two nodes."""
    with ControlPlane.start() as plane:
        plane.install()
        one_gpu_nodes(plane, 2)
        yield plane


@pytest.fixture
def shell(plane: ControlPlane, tmp_path: Path) -> Shell:
    """Return a function that runs commands in the checkout, with kubectl on the PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(plane.kubectl_path)
    environment = {
        **plane.kubectl_environment(),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "KUBECONFIG": str(plane.admin_kubeconfig),
    }

    def run(commands: str) -> str:
        answer = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=CHECKOUT,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


def place(openrl: WorkloadClient) -> None:
    """Place three workers on two devices."""
    openrl.submit(workload("first"))
    openrl.await_phase("first", "Running")
    openrl.submit(workload("second"), workload("alone", shared=False))
    openrl.await_phases(["second", "alone"], "Running")


def place_and_stop(plane: ControlPlane, log: Path) -> None:
    """Place them with a controller that is stopped afterwards."""
    with running_controller(plane, log):
        place(WorkloadClient(plane.api))


def gone(cluster: Cluster) -> bool:
    """Whether no object of the installation is left."""
    return (
        cluster.api.find(NAMESPACE) is None
        and not [item for item in cluster.api.items(CRDS) if item["spec"]["group"] == "openrl.io"]
        and not [item for path in CLUSTER_WIDE for item in cluster.api.items(path, labelSelector=LABEL)]
    )


def await_gone(cluster: Cluster) -> None:
    wait_until(lambda: gone(cluster), "objects of the installation are left", timeout_seconds=GONE_SECONDS)


def test_the_documented_order_leaves_nothing(plane: ControlPlane, shell: Shell, tmp_path: Path) -> None:
    workloads, rest = blocks()[0].splitlines()
    with running_controller(plane, tmp_path / "controller.log") as controller:
        openrl = WorkloadClient(plane.api)
        place(openrl)
        openrl.submit(workload("waiter", shared=False))
        openrl.await_pending("waiter", "WaitingForCapacity")

        shell(workloads)

        assert not openrl.statuses()
        openrl.await_gone()
        assert controller.stop() == 0  # the next commands delete the Deployment
    shell(rest)
    await_gone(plane)


def test_a_namespace_deleted_first_reports_why_it_is_stuck_and_a_controller_completes_it(
    plane: ControlPlane, shell: Shell, tmp_path: Path
) -> None:
    place_and_stop(plane, tmp_path / "controller.log")
    question, *said = blocks()[1].splitlines()
    # The number of objects differs between clusters.
    wanted = {re.sub(r"\d+", "3", line) for line in said}

    shell(f"kubectl delete namespace {WORKER_NAMESPACE} --wait=false")
    wait_until(
        lambda: wanted == set(shell(question.removeprefix("$ ")).splitlines()) or None,
        f"the status of the namespace does not contain {wanted}",
        timeout_seconds=GONE_SECONDS,
    )

    assert "--leader-elect=false" in blocks()[2]
    # The Role in that namespace is deleted, so administrator permissions are needed.
    flags = {"--kubeconfig": str(plane.admin_kubeconfig)}
    with running_controller(plane, tmp_path / "last.log", flags):
        wait_until(
            lambda: plane.api.find(NAMESPACE) is None, "the namespace is left", timeout_seconds=GONE_SECONDS
        )
    shell("kubectl delete -k manifests --ignore-not-found")
    await_gone(plane)


def test_finalizers_can_be_removed_manually_without_a_controller(
    plane: ControlPlane, shell: Shell, tmp_path: Path
) -> None:
    place_and_stop(plane, tmp_path / "controller.log")
    list_pods, remove_finalizers = blocks()[3].split("\n", 1)

    shell("kubectl delete -k manifests --wait=false")
    wait_until(lambda: not shell(list_pods), "Pods are left", timeout_seconds=GONE_SECONDS)
    assert not gone(plane), "no finalizer blocked the deletion"

    shell(remove_finalizers)
    await_gone(plane)
