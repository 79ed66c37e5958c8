"""The run folder of a local control plane: its files, ports, and the command line of each component."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.kubeconfig import write_kubeconfig
from e2e.controlplane.processes.binaries import Binaries
from e2e.controlplane.processes.identity import Identity, new_identities, new_signing_key

LOOPBACK = "127.0.0.1"

# One line per request, written before the next request on the same connection, so that requests can be
# counted.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}

# The default stages of kwok add resources to new Nodes, and make NotReady Nodes ready again. This stage
# replaces them and never applies, so that only tests change Nodes.
NODE_STAGE = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "node-untouched"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Node"},
        "selector": {"matchAnnotations": {"e2e.harness.workloads.io/never": "true"}},
        "next": {"statusTemplate": "{}"},
    },
}

# The controllers that the controller under test depends on. Others would compete for two cores, and the node
# lifecycle controller would evict Pods from nodes without kubelets.
CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "resourceclaim-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
    "device-taint-eviction-controller",
)


def free_ports(count: int) -> list[int]:
    """Return free ports. Another process may take one first; the caller then retries."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for candidate in sockets:
            candidate.bind((LOOPBACK, 0))
        return [candidate.getsockname()[1] for candidate in sockets]
    finally:
        for candidate in sockets:
            candidate.close()


@dataclass(frozen=True)
class Layout:
    """The run folder's files, ports and identities."""

    folder: Path
    binaries: Binaries
    etcd_port: int
    apiserver_port: int
    identities: Mapping[str, Identity]
    client_qps: int

    @classmethod
    def create(cls, folder: Path, binaries: Binaries, *, client_qps: int) -> "Layout":
        """Choose ports and identities, and write the files of the components."""
        etcd_port, apiserver_port = free_ports(2)
        layout = cls(folder, binaries, etcd_port, apiserver_port, new_identities(), client_qps)
        tokens = "".join(f"{identity.token_line()}\n" for identity in layout.identities.values())
        _write_private(layout.folder / "tokens.csv", tokens.encode())
        _write_private(layout.signing_key, new_signing_key())
        _write_private(layout.folder / "audit-policy.json", json.dumps(AUDIT_POLICY).encode())
        (layout.folder / "node-stage.json").write_text(json.dumps(NODE_STAGE), encoding="utf-8")
        return layout

    @property
    def etcd_url(self) -> str:
        return f"http://{LOOPBACK}:{self.etcd_port}"

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.apiserver_port}"

    @property
    def signing_key(self) -> Path:
        return self.folder / "service-account.key"

    @property
    def certificate(self) -> Path:
        """The API server's self-signed certificate, followed by its authority."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def certificate_complete(self) -> bool:
        """Whether the certificate is complete. The API server writes the key after it."""
        return self.certificate.with_suffix(".key").exists()

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def kubeconfig(self, name: str) -> Path:
        return self.folder / f"{name}.kubeconfig"

    def write_kubeconfigs(self) -> None:
        """Write a kubeconfig for each identity. The API server's certificate must exist."""
        authority = self.certificate.read_bytes()
        for name, identity in self.identities.items():
            write_kubeconfig(
                self.kubeconfig(name),
                server=self.server,
                certificate_authority=authority,
                user=identity.user,
                token=identity.token,
            )

    def command(self, name: str) -> list[str]:
        """Return the command line of a component."""
        arguments = {
            "etcd": self._etcd,
            "kube-apiserver": self._apiserver,
            "kube-controller-manager": self._controller_manager,
            "kube-scheduler": self._scheduler,
            "kwok": self._kwok,
        }[name]()
        return [str(self.binaries.path(name)), *arguments]

    def _etcd(self) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls=http://{LOOPBACK}:0",
            "--unsafe-no-fsync",  # the data is discarded
            "--log-level=error",
        ]

    def _apiserver(self) -> list[str]:
        return [
            f"--etcd-servers={self.etcd_url}",
            f"--secure-port={self.apiserver_port}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.signing_key}",
            f"--service-account-signing-key-file={self.signing_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # TaintNodesByCondition would taint the Nodes of tests as not ready forever.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            # As in many clusters: an owner reference that blocks deletion requires a right on finalizers.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            f"--audit-policy-file={self.folder / 'audit-policy.json'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=0",  # no rotation, which would lose requests
        ]

    def _controller_manager(self) -> list[str]:
        return [
            *self._client("kube-controller-manager"),
            f"--service-account-private-key-file={self.signing_key}",
            f"--controllers={','.join(CONTROLLERS)}",
        ]

    def _scheduler(self) -> list[str]:
        return self._client("kube-scheduler")

    def _client(self, name: str) -> list[str]:
        """Return the flags that kube-scheduler and kube-controller-manager share.

        The request rate is increased for measurements: the scheduler's default of 50 requests/s would limit
        placement to about 12 Pods/s.
        """
        kubeconfig = self.kubeconfig(name)
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--kube-api-qps={self.client_qps}",
            f"--kube-api-burst={2 * self.client_qps}",
        ]

    def _kwok(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('kwok')}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            *(f"--config={stage}" for stage in (*self.binaries.stages, self.folder / "node-stage.json")),
        ]


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
