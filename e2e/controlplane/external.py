"""An existing cluster, accessed by a kubeconfig. Nothing is started or stopped.

During the tests, the workers' namespace belongs to them. The controller's Deployment is scaled to 0, because
scenarios start their own. Nodes without kubelets confuse a real cluster, so they are created only on request.
Alternatively, the cluster's own nodes are labeled for a GPU driver that follows labels.
"""

import shutil
import tempfile
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import yaml

from e2e.controlplane.clearing import clear_real
from e2e.controlplane.cluster import MANIFESTS, WORKER_IMAGE, WORKER_NAMESPACE, Cluster
from e2e.controlplane.errors import MissingTool, Unsupported
from e2e.controlplane.fleet import Fleet
from e2e.controlplane.nodes import RealNodes
from e2e.controlplane.processes.binaries import cached_binaries
from e2e.controlplane.processes.identity import (
    CONTROLLER_NAMESPACE,
    CONTROLLER_SERVICE_ACCOUNT,
    CONTROLLER_USER,
)

TOKEN_SECONDS = 24 * 3600  # a long session; the server may grant less


DEPLOYMENT = f"/apis/apps/v1/namespaces/{CONTROLLER_NAMESPACE}/deployments/open-rl-scheduler"


class NodeSetup(StrEnum):
    """The source of nodes with GPUs."""

    NONE = "false"
    NODES = "true"  # create Nodes without kubelets
    LABELS = "labels"  # label its own nodes for its driver, see `nodes`


class ExternalCluster(Cluster):
    """The cluster of a given kubeconfig."""

    pace = 3

    def __init__(
        self, kubeconfig: Path, *, node_setup: NodeSetup = NodeSetup.NONE, worker_image: str = ""
    ) -> None:
        self._kubeconfig = kubeconfig.absolute()
        self._node_setup = node_setup
        self.worker_image = worker_image or WORKER_IMAGE
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        return f"<ExternalCluster {self._kubeconfig}>"

    @property
    def admin_kubeconfig(self) -> Path:
        return self._kubeconfig

    @cached_property
    def controller_kubeconfig(self) -> Path:
        """The controller's kubeconfig, with a new token. The manifests must be installed."""
        account = f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/serviceaccounts/{CONTROLLER_SERVICE_ACCOUNT}"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        token = self.api.create(f"{account}/token", request)["status"]["token"]
        # kubectl resolves the cluster entry. Only the user is replaced.
        document = yaml.safe_load(self.kubectl("config", "view", "--minify", "--flatten", "--raw"))
        document["users"] = [{"name": CONTROLLER_USER, "user": {"token": token}}]
        for entry in document["contexts"]:
            entry["context"]["user"] = CONTROLLER_USER
        self._folder = tempfile.TemporaryDirectory(prefix="openrl-controlplane-")
        path = Path(self._folder.name) / "controller.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    @property
    def kubectl_path(self) -> Path:
        if found := shutil.which("kubectl"):
            return Path(found)
        if built := cached_binaries():
            return built.kubectl
        raise MissingTool("an existing cluster needs kubectl, which is not on the PATH")

    @cached_property
    def nodes(self) -> RealNodes:
        """The cluster's own nodes."""
        return RealNodes(self.api)

    def create_nodes(self, fleet: Fleet) -> list[str]:
        if self._node_setup is NodeSetup.LABELS:
            return self.nodes.configure(fleet)
        if self._node_setup is NodeSetup.NODES:
            return super().create_nodes(fleet)
        raise Unsupported(
            f"{self!r} has its own nodes: E2E_FURNISH=true creates others, E2E_FURNISH=labels labels its own"
        )

    def clear(self, namespace: str = WORKER_NAMESPACE) -> None:
        if self._node_setup is not NodeSetup.LABELS:
            super().clear(namespace)
            return
        clear_real(self.api, namespace)
        self.nodes.release()

    def install(self, manifests: Path = MANIFESTS) -> None:
        super().install(manifests)
        if self.api.find(DEPLOYMENT):
            self.api.patch(DEPLOYMENT, {"spec": {"replicas": 0}})

    def close(self) -> None:
        super().close()
        if self._folder is not None:
            self._folder.cleanup()
