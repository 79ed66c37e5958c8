"""The embedded cluster with the interface of real ones: tests use a kubeconfig, kubectl and HTTP only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from e2e.controlplane.cluster import MANIFESTS, Cluster
from e2e.controlplane.processes.binaries import ensure_binaries
from simulation.embedded.cluster import EmbeddedCluster


class EmbeddedKubernetes(Cluster):
    """See `embedded_kubernetes`. There is nothing to install, and every client has all permissions."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder

    def __repr__(self) -> str:
        return f"<EmbeddedKubernetes {self._url}>"

    @property
    def admin_kubeconfig(self) -> Path:
        return self._folder / "kubeconfig"

    @property
    def controller_kubeconfig(self) -> Path:
        return self.admin_kubeconfig

    @property
    def kubectl_path(self) -> Path:
        return ensure_binaries().kubectl

    def kubectl_environment(self) -> dict[str, str]:
        return {**super().kubectl_environment(), "KUBECACHEDIR": str(self._folder / "kubectl-cache")}

    def install(self, manifests: Path = MANIFESTS) -> None:
        """Do nothing: the cluster serves the kinds of the manifests from the start."""


@contextmanager
def embedded_kubernetes(folder: Path) -> Iterator[EmbeddedKubernetes]:
    """Run an embedded cluster on its own thread, because the test blocks. Its files are in `folder`."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(portal.call(EmbeddedCluster)) as running,
    ):
        running.write_kubeconfig(folder / "kubeconfig")
        with EmbeddedKubernetes(running.url, folder) as cluster:
            yield cluster
