"""The controller with the configuration of a Pod: ServiceAccount files, and a lease in its own namespace.

A kubelet mounts token and CA under a path that only root can write. `python -m e2e.harness.in_pod <folder>
<flag>...` runs the program with that path replaced by `folder`. Environment variables and RBAC are as in a
cluster.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import yaml

from controller.main import main
from e2e.controlplane import CONTROLLER_NAMESPACE, Cluster
from e2e.harness.program import DEFAULT_FLAGS, ControllerProcess, _guarded_process
from informers.client import credentials

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{CONTROLLER_NAMESPACE}/leases"
LEASE = f"{LEASES}/placement.openrl.io"

ELECTION: Mapping[str, str] = {
    "--leader-elect": "true",
    "--leader-elect-lease-duration": "4s",
    "--leader-elect-renew-deadline": "3s",
    "--leader-elect-retry-period": "1s",
}
"""Election timing that is short enough for a test."""


@contextmanager
def controller_in_a_pod(
    cluster: Cluster, folder: Path, pod: str, flags: Mapping[str, str]
) -> Iterator[ControllerProcess]:
    """Run a replica with leader election as Pod `pod`. Do not wait until it leads: it may stay a standby."""
    server = _mount(cluster, folder / pod)
    variables = {
        "KUBERNETES_SERVICE_HOST": server.hostname,
        "KUBERNETES_SERVICE_PORT": server.port,
        "POD_NAME": pod,
        "POD_NAMESPACE": CONTROLLER_NAMESPACE,
    }
    settings = {**DEFAULT_FLAGS, **ELECTION, **flags}
    command = [
        *("env", "--unset=KUBECONFIG", *(f"{name}={value}" for name, value in variables.items())),
        *(sys.executable, "-m", "e2e.harness.in_pod", str(folder / pod)),
        *(f"{name}={value}" for name, value in settings.items()),
    ]
    log = folder / f"{pod}.log"
    with _guarded_process(command, log) as process:
        yield ControllerProcess(process, log)


def _mount(cluster: Cluster, folder: Path) -> SplitResult:
    """Write token and CA as a kubelet does, and return the URL of the API server."""
    document = yaml.safe_load(cluster.controller_kubeconfig.read_text())
    entry = document["clusters"][0]["cluster"]
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "ca.crt").write_bytes(base64.b64decode(entry["certificate-authority-data"]))
    (folder / "token").write_text(document["users"][0]["user"]["token"])
    return urlsplit(str(entry["server"]))


def _run_from(folder: Path) -> None:
    """Run the program with these files instead of the mounted ones."""
    mounted = partial(
        credentials.ServiceAccount, token_file=str(folder / "token"), ca_file=str(folder / "ca.crt")
    )
    vars(credentials)["ServiceAccount"] = mounted
    main()


if __name__ == "__main__":
    _folder = Path(sys.argv.pop(1))
    _run_from(_folder)
