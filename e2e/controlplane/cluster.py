"""The interface between tests and the providers of clusters (`provider.py`).

Some clusters lack an operation, such as reading an audit log or pausing a component. The operation then
raises `Unsupported`, and the test is skipped.
"""

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.controlplane.api import Api, Object
from e2e.controlplane.audit import AuditLog
from e2e.controlplane.clearing import clear
from e2e.controlplane.errors import ApiRefused, InvalidArgument, KubectlFailed, Unsupported
from e2e.controlplane.fleet import Fleet, create_nodes
from e2e.controlplane.processes.component import Component
from e2e.controlplane.waiting import wait_until

CHECKOUT = Path(__file__).parents[2]
MANIFESTS = CHECKOUT / "manifests"
WORKER_NAMESPACE = "openrl-system"
WORKER_IMAGE = "worker:1"  # the image in the scenarios' Pod templates

KUBECTL_TIMEOUT_SECONDS = 60
SERVED_TIMEOUT_SECONDS = 30
NOT_SERVED_YET = frozenset(
    {HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Cluster(ABC):
    """A Kubernetes cluster. As a context manager it stops what it started.

    `manifests` is the argument for `install`. `worker_image` replaces `WORKER_IMAGE`. Time limits are
    multiplied by `pace`, which is 1 for a cluster without containers.
    """

    manifests: Path = MANIFESTS
    worker_image: str = WORKER_IMAGE
    pace: float = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    @abstractmethod
    def admin_kubeconfig(self) -> Path:
        """A kubeconfig with the administrator's rights."""

    @property
    @abstractmethod
    def controller_kubeconfig(self) -> Path:
        """A kubeconfig with exactly the rights of the controller's ServiceAccount."""

    @property
    @abstractmethod
    def kubectl_path(self) -> Path:
        """The kubectl for this cluster."""

    @cached_property
    def api(self) -> Api:
        """A shared client with the administrator's rights."""
        return Api.from_kubeconfig(self.admin_kubeconfig)

    @property
    def audit(self) -> AuditLog:
        """The API server's audit log."""
        raise Unsupported(f"{self!r} has no readable audit log")

    def component(self, name: str) -> Component:
        """Return a process of the control plane, to pause or kill it."""
        raise Unsupported(f"{self!r} does not own its {name}")

    def restart(self, name: str) -> None:
        """Restart a component and return once it works."""
        raise Unsupported(f"{self!r} does not own its {name}")

    @contextmanager
    def paused(self, name: str) -> Iterator[Component]:
        """Pause a component. Its connections stay open, and it does not answer."""
        component = self.component(name)
        component.pause()
        try:
            yield component
        finally:
            component.resume()

    def close(self) -> None:
        if "api" in self.__dict__:
            self.api.close()

    def create_nodes(self, fleet: Fleet) -> list[str]:
        """Create a fleet of nodes without kubelets, and return their names."""
        return create_nodes(self.api, fleet)

    def clear(self, namespace: str = WORKER_NAMESPACE) -> None:
        """Remove our objects in the workers' namespace, and the nodes that tests created."""
        clear(self.api, namespace)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return its output."""
        command = [str(self.kubectl_path), f"--kubeconfig={self.admin_kubeconfig}", *arguments]
        try:
            answer = subprocess.run(
                command,
                input=stdin,
                env=self.kubectl_environment(),
                capture_output=True,
                check=False,
                text=True,
                timeout=KUBECTL_TIMEOUT_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {error}") from error
        if answer.returncode != 0:
            message = " ".join(answer.stderr.split()) or f"exit status {answer.returncode}"
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {message}")
        return answer.stdout

    def kubectl_environment(self) -> dict[str, str]:
        """Return the environment of kubectl."""
        return dict(os.environ)

    def install(self, manifests: Path = MANIFESTS) -> None:
        """Apply the project's manifests as users do, and wait until their resources are served.

        Validation is strict, on the server: an unknown field is an error.
        """
        if not (manifests / "kustomization.yaml").is_file():
            raise InvalidArgument(f"{manifests} has no kustomization.yaml: nothing to install")
        applied = self.kubectl("apply", "-k", str(manifests), "--validate=strict", "--output=name")
        prefix = "customresourcedefinition.apiextensions.k8s.io/"
        for line in applied.splitlines():
            if line.startswith(prefix):
                self._await_served(line.removeprefix(prefix).split()[0])

    def _await_served(self, name: str) -> None:
        def served() -> bool:
            definition = self.api.get(f"{CRDS}/{name}")
            conditions = {
                item["type"]: item["status"] for item in definition.get("status", {}).get("conditions", [])
            }
            if conditions.get("NamesAccepted") == "False":
                raise InvalidArgument(f"CustomResourceDefinition {name}: its names are taken")
            return conditions.get("Established") == "True" and self._lists(definition["spec"])

        what = f"CustomResourceDefinition {name} is not served"
        wait_until(served, what, timeout_seconds=SERVED_TIMEOUT_SECONDS)

    def _lists(self, spec: Object) -> bool:
        """Return whether the objects can be listed. For a new resource, the API server answers 429."""
        collections = [
            f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            for version in spec["versions"]
            if version["served"]
        ]
        try:
            for collection in collections:
                self.api.get(collection, limit="1")
        except ApiRefused as error:
            if error.status in NOT_SERVED_YET:
                return False
            raise
        return True
