"""A real Kubernetes control plane as a test tool.

It consists of released versions of etcd, kube-apiserver, kube-scheduler and kube-controller-manager, built
from source, and kwok in place of kubelets. The real scheduler allocates GPUs, without containers or GPUs.
People use `python -m e2e.controlplane up`, programs `ControlPlane.start`, and tests the fixture `cluster`.
"""

from e2e.controlplane.api import Api, Object
from e2e.controlplane.audit import AuditLog, Request, RequestKind
from e2e.controlplane.cluster import WORKER_IMAGE, WORKER_NAMESPACE, Cluster
from e2e.controlplane.errors import ApiRefused, ApiUnreachable, ControlPlaneError, Unsupported
from e2e.controlplane.fleet import Fleet, NodeShape
from e2e.controlplane.local import ControlPlane, Options
from e2e.controlplane.processes.identity import CONTROLLER_NAMESPACE, CONTROLLER_USER
from e2e.controlplane.waiting import wait_until

__all__ = [
    "CONTROLLER_NAMESPACE",
    "CONTROLLER_USER",
    "WORKER_IMAGE",
    "WORKER_NAMESPACE",
    "Api",
    "ApiRefused",
    "ApiUnreachable",
    "AuditLog",
    "Cluster",
    "ControlPlane",
    "ControlPlaneError",
    "Fleet",
    "NodeShape",
    "Object",
    "Options",
    "Request",
    "RequestKind",
    "Unsupported",
    "wait_until",
]
