"""A cluster that somebody else made, reached by a kubeconfig. Nothing is started or stopped.

Its workers' namespace belongs to the tests while they run, and so does its Deployment of the controller,
which is scaled to 0: scenarios start their own. Nodes and devices are made there only if the caller says so
(Nodes without kubelets confuse a real cluster), or its own nodes are labelled where its driver follows that.
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
    """How nodes with GPUs come about."""

    NONE = "false"
    NODES = "true"  # Nodes without kubelets are made
    LABELS = "labels"  # its own nodes are labelled for its driver, see `nodes`


class ExternalCluster(Cluster):
    """The cluster of a given kubeconfig."""

    pace = 3

    def __init__(
        self, kubeconfig: Path, *, furnishing: NodeSetup = NodeSetup.NONE, worker_image: str = ""
    ) -> None:
        self._kubeconfig = kubeconfig.absolute()
        self._furnishing = furnishing
        self.worker_image = worker_image or WORKER_IMAGE
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        return f"<ExternalCluster {self._kubeconfig}>"

    @property
    def admin_kubeconfig(self) -> Path:
        return self._kubeconfig

    @cached_property
    def controller_kubeconfig(self) -> Path:
        """Ask for a token of the controller's ServiceAccount; the manifests must have been installed."""
        account = f"/api/v1/namespaces/{CONTROLLER_NAMESPACE}/serviceaccounts/{CONTROLLER_SERVICE_ACCOUNT}"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        token = self.api.create(f"{account}/token", request)["status"]["token"]
        # kubectl resolves the cluster entry, whatever shape and files it has; only the user is replaced.
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
        raise MissingTool(
            "kubectl is needed for a cluster given by a kubeconfig, and there is none on the PATH"
        )

    @cached_property
    def nodes(self) -> RealNodes:
        """Its own nodes, to be labelled."""
        return RealNodes(self.api)

    def furnish(self, fleet: Fleet) -> list[str]:
        if self._furnishing is NodeSetup.LABELS:
            return self.nodes.furnish(fleet)
        if self._furnishing is NodeSetup.NODES:
            return super().furnish(fleet)
        raise Unsupported(
            f"{self!r} brings its own nodes: none are made there unless E2E_FURNISH=true,"
            " none labelled unless E2E_FURNISH=labels"
        )

    def clear(self, namespace: str = WORKER_NAMESPACE) -> None:
        if self._furnishing is not NodeSetup.LABELS:
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
