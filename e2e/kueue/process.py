"""A running Kueue beside a control plane, with its Pod integration in labeled namespaces."""

from __future__ import annotations

import base64
import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane import Object, wait_until
from e2e.controlplane.local import ControlPlane
from e2e.controlplane.processes.component import Component
from e2e.controlplane.processes.guard import Guard
from e2e.controlplane.processes.layout import LOOPBACK, free_ports
from e2e.kueue.program import METRICS_VARIABLE, NAME, KueueProgram

NAMESPACE = "kueue-system"
NAMESPACE_LABEL = "kueue"
START_SECONDS = 60
KEPT_PATHS = ("--v1-pod", "clusterqueue", "resourceflavor", "v1beta2-workload", "localqueue", "cohort")
"""Ends of the paths of the webhooks for Pods and queues. Those of other jobs are left out."""
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@contextmanager
def running_kueue(plane: ControlPlane, program: KueueProgram, folder: Path) -> Iterator[Component]:
    """Run Kueue during the block, and then remove its webhooks, which would otherwise refuse Pods."""
    webhook_port, health_port = free_ports(2)
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("apply", "--server-side", f"--filename={program.crds}")
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={START_SECONDS}s")
    # Kueue serves its webhooks with the certificate of the API server, which is one for the loopback address.
    certificate = plane._layout.certificate
    shutil.copyfile(certificate, folder / "tls.crt")
    shutil.copyfile(certificate.with_suffix(".key"), folder / "tls.key")
    configuration = folder / "kueue.json"
    configuration.write_text(json.dumps(_configuration(folder, webhook_port, health_port)))
    environment = [
        "/usr/bin/env",
        f"KUBECONFIG={plane.admin_kubeconfig}",
        f"POD_NAMESPACE={NAMESPACE}",
        f"{METRICS_VARIABLE}={folder}",
    ]
    flags = [f"--config={configuration}", "--feature-gates=VisibilityOnDemand=false"]
    guard = Guard(None)
    kueue = Component(
        NAME,
        [*environment, str(program.binary), *flags],
        folder=folder,
        process_group=guard.process_group,
    )
    try:
        kueue.start()
        wait_until(
            lambda: _answers(kueue, webhook_port), "Kueue does not start", timeout_seconds=START_SECONDS
        )
        webhooks = folder / "webhooks.yaml"
        webhooks.write_text(yaml.safe_dump_all(_webhooks(program.webhooks, webhook_port, certificate)))
        plane.kubectl("apply", f"--filename={webhooks}")
        yield kueue
    finally:
        for kind in CONFIGURATIONS:
            plane.kubectl("delete", kind, "--all")
        kueue.stop()
        guard.dismiss()


def _configuration(folder: Path, webhook_port: int, health_port: int) -> Object:
    excluded = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", NAMESPACE],
    }
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": webhook_port, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 100, "burst": 200},
        "integrations": {"frameworks": ["pod"]},
        "managedJobsNamespaceSelector": {"matchExpressions": [excluded]},
    }


def _answers(kueue: Component, port: int) -> bool:
    kueue.require_running()
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


def _webhooks(manifests: Path, port: int, certificate: Path) -> list[Object]:
    """Return the webhooks of Pods and queues, called by URL instead of by Service."""
    authority = base64.b64encode(certificate.read_bytes()).decode()
    documents: list[Any] = list(yaml.safe_load_all(manifests.read_text()))
    for document in documents:
        document["webhooks"] = [
            hook
            for hook in document["webhooks"]
            if hook["clientConfig"]["service"]["path"].endswith(KEPT_PATHS)
        ]
        for hook in document["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": authority}
            if path.endswith("--v1-pod"):
                hook["namespaceSelector"] = {"matchLabels": {NAMESPACE_LABEL: "on"}}
    return documents
