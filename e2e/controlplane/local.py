"""A control plane of real Kubernetes components on loopback ports, without containers.

    with ControlPlane.start() as plane:
        plane.create_nodes(Fleet(nodes=2))
        print(plane.kubectl("get", "nodes"))

`start` returns once every component has proved that it works. The end of the context stops all processes,
waits for them, and removes the run folder. A guard does the same if this process dies. A failed start also
leaves nothing behind, and reports the end of the failed component's log.
"""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Self

from e2e.controlplane.api import Api
from e2e.controlplane.audit import AuditLog
from e2e.controlplane.cluster import MANIFESTS, Cluster
from e2e.controlplane.errors import (
    ApiUnreachable,
    ComponentEnded,
    ControlPlaneError,
    InvalidArgument,
    NotReady,
)
from e2e.controlplane.kubeconfig import Access
from e2e.controlplane.processes.binaries import Binaries, ensure_binaries
from e2e.controlplane.processes.component import Component
from e2e.controlplane.processes.go import Progress, to_stderr
from e2e.controlplane.processes.guard import Guard
from e2e.controlplane.processes.identity import ADMIN, CONTROLLER
from e2e.controlplane.processes.layout import Layout
from e2e.controlplane.processes.probe import probe
from e2e.controlplane.waiting import wait_until

ETCD, APISERVER = "etcd", "kube-apiserver"
CLIENTS = ("kube-controller-manager", "kube-scheduler", "kwok")
COMPONENTS = (ETCD, APISERVER, *CLIENTS)

START_ATTEMPTS = 5
PORT_TAKEN = "address already in use"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a control plane. By default the binaries are built or taken from the cache."""

    binaries: Binaries | None = None
    keep: bool = False  # keep the run folder (logs, audit log, data) for debugging
    start_timeout_seconds: float = 60
    client_qps: int = 1000  # of kube-scheduler and kube-controller-manager, whose defaults are 50 and 20
    progress: Progress = to_stderr


class ControlPlane(Cluster):
    """A local control plane. A restarted component keeps its port and data."""

    def __init__(self, options: Options, binaries: Binaries) -> None:
        """Create the run folder without starting anything. Use `start` instead."""
        self._options = options
        self.folder = Path(tempfile.gettempdir()) / f"openrl-controlplane-{secrets.token_hex(6)}"
        with ExitStack() as undo:
            guard = Guard(None if options.keep else self.folder)
            undo.callback(guard.dismiss)
            undo.callback(self._remove_folder)
            self.folder.mkdir(mode=0o700)
            self._layout = Layout.create(self.folder, binaries, client_qps=options.client_qps)
            self._components: Mapping[str, Component] = {
                name: Component(
                    name, self._layout.command(name), folder=self.folder, process_group=guard.process_group
                )
                for name in COMPONENTS
            }
            for component in self._components.values():
                undo.callback(component.kill)  # the data is discarded
            self._stack = undo.pop_all()

    @classmethod
    def start(cls, options: Options | None = None) -> Self:
        """Start all components and return when they work. If a port is taken, retry with other ports."""
        options = options or Options()
        binaries = options.binaries or ensure_binaries(options.progress)
        for attempt in range(1, START_ATTEMPTS + 1):
            plane = cls(options, binaries)
            try:
                plane._start_components()
            except ComponentEnded as error:
                plane.close()
                if attempt < START_ATTEMPTS and any(PORT_TAKEN in note for note in _notes(error)):
                    continue
                raise
            except BaseException:
                plane.close()
                raise
            return plane
        raise AssertionError("the last attempt returned or raised")

    def __repr__(self) -> str:
        return f"<ControlPlane {self._layout.server}>"

    @property
    def admin_kubeconfig(self) -> Path:
        return self._layout.kubeconfig(ADMIN)

    @property
    def controller_kubeconfig(self) -> Path:
        return self._layout.kubeconfig(CONTROLLER)

    @property
    def kubectl_path(self) -> Path:
        return self._layout.binaries.kubectl

    @property
    def audit(self) -> AuditLog:
        return AuditLog(self._layout.audit_log)

    @property
    def etcd_url(self) -> str:
        return self._layout.etcd_url

    def component(self, name: str) -> Component:
        if name not in self._components:
            raise InvalidArgument(f"component {name!r}: there are {', '.join(self._components)}")
        return self._components[name]

    def restart(self, name: str) -> None:
        component = self.component(name)
        component.stop()
        component.start()
        self._await_ready(name)

    def install(self, manifests: Path = MANIFESTS) -> None:
        """Install, and restart the garbage collector, which otherwise needs 30 s to learn new kinds."""
        super().install(manifests)
        self.restart("kube-controller-manager")

    def kubectl_environment(self) -> dict[str, str]:
        # The discovery cache would otherwise remain in the user's home.
        return {**os.environ, "KUBECACHEDIR": str(self.folder / "kubectl-cache")}

    def close(self) -> None:
        super().close()
        self._stack.close()

    def _start_components(self) -> None:
        started = time.monotonic()
        for name in (ETCD, APISERVER):
            self._components[name].start()
            self._await_ready(name)
        for name in CLIENTS:
            self._components[name].start()
        self._await_ready(*CLIENTS)
        self._options.progress(f"Control plane ready after {time.monotonic() - started:.1f} s: {self.folder}")

    def _await_ready(self, *names: str) -> None:
        """Wait until components work. Errors carry the end of their logs."""
        try:
            if ETCD in names:
                self._await(ETCD, self._etcd_ready)
            elif APISERVER in names:
                self._await(APISERVER, self._apiserver_ready)
            else:
                probe(
                    self.api, alive=self.require_running, timeout_seconds=self._options.start_timeout_seconds
                )
            self.require_running(*names)
        except NotReady as error:
            for name in names:
                if name in str(error):
                    self._components[name].annotate(error)
            raise

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        def check() -> bool:
            self.require_running(name)
            return ready()

        timeout_seconds = self._options.start_timeout_seconds
        wait_until(check, f"{name} is not ready", timeout_seconds=timeout_seconds)

    def require_running(self, *names: str) -> None:
        """Raise if one of these components ended. The default is all components."""
        for name in names or COMPONENTS:
            self._components[name].require_running()

    def _etcd_ready(self) -> bool:
        with Api(Access(server=self.etcd_url, tls=None, token=None)) as etcd:
            return _answers(etcd)

    def _apiserver_ready(self) -> bool:
        """Probe as this run's administrator. Another server on the port has another certificate and token."""
        if not self._layout.certificate_complete:
            return False
        if not self.admin_kubeconfig.exists():
            self._layout.write_kubeconfigs()
        return _answers(self.api)

    def _remove_folder(self) -> None:
        if self._options.keep:
            self._options.progress(f"Kept {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=not self.folder.exists())


def _answers(api: Api) -> bool:
    try:
        status, _, _ = api.send("GET", "/readyz")
    except ApiUnreachable:
        return False
    return status == HTTPStatus.OK


def _notes(error: ControlPlaneError) -> list[str]:
    return list(getattr(error, "__notes__", []))
