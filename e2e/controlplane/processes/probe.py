"""The readiness probe of the control plane, which exercises each component once.

kube-scheduler and kube-controller-manager listen on no port here, and a health endpoint would only prove
that a process is alive. The probe instead creates and deletes a Pod with a ResourceClaim on its own node:

* kube-scheduler allocates the claim and binds the Pod; kwok runs it and completes its deletion;
* kube-controller-manager clears the allocation (resourceclaim controller) and deletes the objects that the
  Node owned (garbage collector).

The node is tainted and has its own driver and device class, so no other Pod runs there. The probe removes its
objects. It does not wait for the end of its namespace, which takes the namespace controller 5 s.
"""

import contextlib
import secrets
from collections.abc import Callable

from e2e.controlplane.api import Api, Object
from e2e.controlplane.errors import ControlPlaneError
from e2e.controlplane.fleet import (
    DEVICE_CLASSES,
    NODES,
    RESOURCE_SLICES,
    create_node,
    ensure_device_class,
    publish_devices,
    slice_name,
)
from e2e.controlplane.waiting import wait_until

DRIVER = "probe.openrl.io"
TAINT = "e2e.harness.workloads.io/probe"

Alive = Callable[[], None]


def probe(api: Api, *, alive: Alive, timeout_seconds: float) -> None:
    """Return when all components work. Raises NotReady with the component that does not.

    `alive` is called during the wait, and raises if a component has ended.
    """
    name = f"controlplane-probe-{secrets.token_hex(4)}"
    try:
        _create(api, name)
        _exercise(api, name, alive, timeout_seconds)
    except BaseException:
        with contextlib.suppress(ControlPlaneError):  # report the original failure
            _discard(api, name)
        raise


def _create(api: Api, name: str) -> None:
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    ensure_device_class(api, name=name, driver=DRIVER)
    taint = {"key": TAINT, "value": name, "effect": "NoSchedule"}
    resources = {"cpu": "1", "memory": "1Gi", "pods": "1"}
    node = create_node(api, {"name": name, "labels": {TAINT: name}}, {"taints": [taint]}, resources)
    publish_devices(api, node, ["1Gi"], driver=DRIVER)
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    request = {"name": "gpu", "exactly": {"deviceClassName": name}}
    api.create(
        _claims(name),
        {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"devices": {"requests": [request]}},
        },
    )
    api.create(_pods(name), _pod(name))


def _pod(name: str) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {TAINT: name},
            "tolerations": [{"key": TAINT, "operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "containers": [{"name": "probe", "image": "probe", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    }


def _exercise(api: Api, name: str, alive: Alive, timeout_seconds: float) -> None:
    pod, claim = f"{_pods(name)}/{name}", f"{_claims(name)}/{name}"
    published = f"{RESOURCE_SLICES}/{slice_name(name, DRIVER)}"

    def observe(condition: Callable[[], bool], what: str) -> None:
        def check() -> bool:
            alive()
            return condition()

        wait_until(check, what, timeout_seconds=timeout_seconds)

    observe(lambda: "nodeName" in api.get(pod)["spec"], "kube-scheduler did not bind a Pod with a claim")
    observe(lambda: api.get(pod)["status"]["phase"] == "Running", "kwok did not run a bound Pod")
    api.delete(pod)
    observe(lambda: api.find(pod) is None, "kwok did not finish the deletion of a Pod")
    observe(
        lambda: "allocation" not in api.get(claim).get("status", {}),
        "kube-controller-manager did not clear an allocation",
    )
    _discard(api, name)
    observe(lambda: api.find(published) is None, "kube-controller-manager did not collect an owned object")


def _discard(api: Api, name: str) -> None:
    for path in (f"{NODES}/{name}", f"{DEVICE_CLASSES}/{name}", f"/api/v1/namespaces/{name}"):
        api.delete(path)


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _claims(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
