"""Tools for the fault scenarios: redirected kubeconfigs, a second API server, compaction, audit counts.

They need a control plane that this process started. On any other cluster they raise `Unsupported`, which
skips the test.
"""

from __future__ import annotations

import json
import os
import platform
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from e2e.controlplane import Api, Cluster, wait_until
from e2e.controlplane.audit import AuditLog
from e2e.controlplane.errors import ApiUnreachable, Unsupported
from e2e.controlplane.kubeconfig import Access
from e2e.controlplane.local import APISERVER, ControlPlane
from e2e.controlplane.processes.component import Component
from e2e.controlplane.processes.identity import CONTROLLER_USER
from e2e.controlplane.processes.layout import LOOPBACK, free_ports
from e2e.harness.program import DEFAULT_FLAGS, PROGRAM, ControllerError, ControllerProcess, _guarded_process
from e2e.harness.workloads import LEDGERS, WORKLOADS

READY_SECONDS = 60
OK = 200

POLL_CALLS = {"x86_64": {"232", "281", "441"}, "aarch64": {"22", "441"}}
"""The numbers of `epoll_wait`, `epoll_pwait` and `epoll_pwait2` by machine type."""

LISTED_RESOURCES = frozenset(
    {"workloads", "claimledgers", "resourceclaims", "pods", "nodes", "resourceslices", "deviceclasses"}
)
"""The resources for which a controller has informers."""


def require_local(cluster: Cluster) -> ControlPlane:
    """Return the cluster if this process started it. Raises `Unsupported` otherwise."""
    if not isinstance(cluster, ControlPlane):
        raise Unsupported(f"{cluster!r} was not started by this process")
    return cluster


def port_of(plane: ControlPlane) -> int:
    """Return the port of the API server."""
    return plane._layout.apiserver_port


def redirected_kubeconfig(kubeconfig: Path, port: int, into: Path) -> Path:
    """Write a copy of a kubeconfig that connects to another port of this machine, and return its path."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{port}"
    into.touch(0o600)
    into.write_text(yaml.safe_dump(document))
    return into


@contextmanager
def controller_with_errors(
    cluster: Cluster, log: Path, flags: Mapping[str, str]
) -> Iterator[ControllerProcess]:
    """Run a controller that may log errors, because the test breaks its cluster. Tracebacks still fail."""
    settings = {**DEFAULT_FLAGS, "--kubeconfig": str(cluster.controller_kubeconfig), **flags}
    command = [str(PROGRAM), *(f"{name}={value}" for name, value in settings.items())]
    with _guarded_process(command, log) as process:
        yield ControllerProcess(process, log)
    if "Traceback" in log.read_text():
        raise ControllerError(log.read_text())


def list_counts(audit: AuditLog, since: int) -> Counter[str]:
    """Count the list requests of controllers since a mark of the audit log, by resource."""
    return Counter(
        request.kind.resource
        for request in audit.requests(since=since, user=CONTROLLER_USER)
        if request.kind.verb == "list"
    )


@dataclass(frozen=True)
class SecondServer:
    """A second API server on the same etcd."""

    component: Component
    port: int
    api: Api
    audit: AuditLog


@contextmanager
def second_server(plane: ControlPlane, *flags: str, etcd_port: int | None = None) -> Iterator[SecondServer]:
    """Run a second API server, with the certificate and users of the first, while the block runs.

    With `etcd_port` it connects to etcd through that port, which may belong to a proxy.
    """
    (port,) = free_ports(1)
    layout = replace(plane._layout, apiserver_port=port, etcd_port=etcd_port or plane._layout.etcd_port)
    log = plane.folder / f"second-{port}-audit.log"
    command = [*layout.command(APISERVER), f"--audit-log-path={log}", *flags]
    group = plane.component(APISERVER)._process_group
    component = Component(f"second-{port}", command, folder=plane.folder, process_group=group)
    access = Api.from_kubeconfig(plane.admin_kubeconfig)._access
    api = Api(replace(access, server=f"https://{LOOPBACK}:{port}"))

    def ready() -> bool:
        component.require_running()
        try:
            return api.send("GET", "/readyz")[0] == OK
        except ApiUnreachable:
            return False

    component.start()
    try:
        wait_until(ready, "the second API server is not ready", timeout_seconds=READY_SECONDS)
        await_custom_resources(api)
        yield SecondServer(component, port, api, AuditLog(log))
    finally:
        api.close()
        component.kill()


def restart_apiserver(plane: ControlPlane) -> None:
    """Restart the API server, and wait until it also serves the custom resources, which start later."""
    plane.restart(APISERVER)
    await_custom_resources(plane.api)


def await_custom_resources(api: Api) -> None:
    """Wait until an API server serves the custom resources."""

    def serves() -> bool:
        try:
            return all(api.send("GET", path)[0] == OK for path in (WORKLOADS, LEDGERS))
        except ApiUnreachable:
            return False

    wait_until(serves, "the custom resources are not served", timeout_seconds=READY_SECONDS)


def compact(plane: ControlPlane) -> None:
    """Compact etcd up to the current revision, as its periodic compaction does."""
    with Api(Access(server=plane.etcd_url, tls=None, token=None)) as etcd:
        answer = etcd.request("POST", "/v3/kv/range", {"key": "AA==", "limit": "1"})
        revision = answer["header"]["revision"]
        etcd.request("POST", "/v3/kv/compaction", {"revision": revision, "physical": True})


def etcd_port_of(plane: ControlPlane) -> int:
    """Return the client port of etcd."""
    return urlsplit(plane.etcd_url).port or 0


@dataclass(frozen=True)
class ControllerWrite:
    """One write of a controller, with the time of receipt and the credential."""

    received: str
    verb: str
    resource: str
    name: str
    code: int
    user_agent: str
    credential: str
    """The ID of the token, empty for a static one."""

    @property
    def of_the_lease(self) -> bool:
        return self.resource == "leases"


WRITES = frozenset({"create", "update", "patch", "delete"})
CREDENTIAL = "authentication.kubernetes.io/credential-id"


def controller_writes(audit: AuditLog, since: int) -> list[ControllerWrite]:
    """Return the writes of controllers since a mark, in the order of receipt."""
    found = []
    with audit._path.open("rb") as log:
        log.seek(since)
        for line in log:
            event = json.loads(line)
            if event["user"].get("username") != CONTROLLER_USER or event["verb"] not in WRITES:
                continue
            target = event.get("objectRef") or {}
            credential = (event["user"].get("extra") or {}).get(CREDENTIAL, [""])[0]
            resource = "/".join(filter(None, (target.get("resource", ""), target.get("subresource", ""))))
            found.append(
                ControllerWrite(
                    event["requestReceivedTimestamp"],
                    event["verb"],
                    resource,
                    target.get("name", ""),
                    event.get("responseStatus", {}).get("code", 0),
                    event.get("userAgent", ""),
                    credential,
                )
            )
    return sorted(found, key=lambda write: write.received)


@contextmanager
def frozen(controller: ControllerProcess) -> Iterator[None]:
    """Stop a controller's process with SIGSTOP, like a suspended machine, and continue it after the block.

    The process is stopped while its event loop waits for events. At any other point, a request that has
    passed the permission check may already be in the kernel and would be sent in spite of a lost lease.
    """
    pid = controller.process.pid
    calls = POLL_CALLS.get(platform.machine())
    if calls is None:
        raise Unsupported(f"the system calls of {platform.machine()} are not known here")

    def stopped_between_turns() -> bool:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: _state(pid) == "T", f"process {pid} does not stop", timeout_seconds=10)
        if _system_call(pid) in calls:
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    try:
        # Poll faster than usual, because the work that the freeze must interrupt continues.
        wait_until(
            stopped_between_turns,
            f"the event loop of process {pid} never waits",
            timeout_seconds=10,
            interval_seconds=0.002,
        )
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _state(pid: int) -> str:
    # The program's name before it is in parentheses and may contain any character.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _system_call(pid: int) -> str:
    """Return the number of the main thread's current system call, or -1."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0]
