"""Generated Pods of about 4 KB of JSON, as an API server sends them, and their nodes.

Each Pod belongs to a ReplicaSet and is not a worker. Values repeat as in a real cluster: many Pods share a
node, a namespace, a template and its resource requests.
"""

from __future__ import annotations

import json
from typing import Any, Final

PODS_PER_NODE: Final = 50
NAMESPACES: Final = 100
TEMPLATES: Final = 200
POD_BYTES: Final = 4000

_TIME = "2026-01-01T00:00:00Z"


def node_name(number: int) -> str:
    """Return the name of the node of Pod `number`."""
    return f"ip-10-0-{number // PODS_PER_NODE:05}.internal"


def _managed_fields() -> list[dict[str, Any]]:
    mounts: dict[str, Any] = {
        f'k:{{"mountPath":"/var/run/{path}"}}': {".": {}, "f:name": {}} for path in ("a", "b")
    }
    fields = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}}, "f:generateName": {}},
        "f:spec": {
            "f:containers": {
                f'k:{{"name":"{name}"}}': {
                    ".": {},
                    "f:image": {},
                    "f:env": {".": {}},
                    "f:volumeMounts": mounts,
                }
                for name in ("main", "sidecar")
            }
        },
    }
    return [
        {"manager": name, "operation": "Update", "apiVersion": "v1", "time": _TIME, "fieldsV1": fields}
        for name in ("kube-controller-manager", "kubelet")
    ]


def _container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:1.27.3",
        "env": [{"name": f"SETTING_{number}", "value": "a value"} for number in range(4)],
        "resources": {"requests": {"memory": "@MEMORY@Mi", "cpu": "@CPU@m"}, "limits": {"memory": "8Gi"}},
        "volumeMounts": [
            {
                "name": "kube-api-access-@TAIL@",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io",
            }
        ],
        "imagePullPolicy": "IfNotPresent",
    }


def _document() -> dict[str, Any]:
    name, app = "@APP@-7d4b9c6f5d-@TAIL@", "@APP@"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{app}-7d4b9c6f5d",
        "uid": "2c9fd1b5-5e2a-4a7c-9c52-@APP@",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    states = [
        {
            "name": part,
            "image": f"registry.example.com/team/{part}:1.27.3",
            "imageID": "sha256:1b2c3d",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": _TIME}},
        }
        for part in ("main", "sidecar")
    ]
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "metadata": {
            "name": name,
            "generateName": f"{app}-7d4b9c6f5d-",
            "namespace": "@NAMESPACE@",
            "uid": "8a6f2d3c-1b0e-4f57-93d1-@UID@",
            "resourceVersion": "@VERSION@",
            "creationTimestamp": _TIME,
            "labels": {"app": app, "pod-template-hash": "7d4b9c6f5d"},
            "annotations": {"note": "@PADDING@"},
            "ownerReferences": [owner],
            "managedFields": _managed_fields(),
        },
        "spec": {
            "nodeName": "@NODE@",
            "containers": [_container("main"), _container("sidecar")],
            "volumes": [{"name": "kube-api-access-@TAIL@", "projected": {"defaultMode": 420}}],
            "restartPolicy": "Always",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": c, "status": "True", "lastTransitionTime": _TIME} for c in conditions],
            "containerStatuses": states,
        },
    }


def _template() -> str:
    text = json.dumps(_document(), separators=(",", ":"))
    padding = "x" * max(0, POD_BYTES - len(text))
    text = text.replace("%", "%%").replace("@PADDING@", padding)
    for word in ("APP", "TAIL", "NAMESPACE", "UID", "VERSION", "NODE", "MEMORY", "CPU"):
        text = text.replace(f"@{word}@", f"%({word})s")
    return text


_TEMPLATE: Final = _template()


def pod(number: int, version: int) -> bytes:
    """Return Pod `number` as a list item, without `kind` and `apiVersion`."""
    template = number % TEMPLATES
    values = {
        "APP": f"app-{template:04}",
        "TAIL": f"{number:05x}",
        "NAMESPACE": f"team-{template % NAMESPACES:03}",
        "UID": f"{number:012x}",
        "VERSION": str(version),
        "NODE": node_name(number),
        "MEMORY": str(64 * (1 + template % 20)),
        "CPU": str(10 * (1 + template % 10)),
    }
    return (_TEMPLATE % values).encode()


def node(number: int) -> bytes:
    """Return the node of Pod `number`, which is not enabled for placement."""
    document = {
        "metadata": {"name": node_name(number), "uid": f"node-{number}", "resourceVersion": "1"},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()
