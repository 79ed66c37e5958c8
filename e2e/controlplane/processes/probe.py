"""Is the control plane working? Asked by letting each component do its job once.

kube-scheduler and kube-controller-manager listen on no port here, and a health endpoint would only say that
a process is alive. So a Pod with a ResourceClaim is taken through its life on a node of its own, which
names the component that failed to do its part:

* kube-scheduler allocates the claim and binds the Pod; kwok runs it and finishes its deletion;
* kube-controller-manager clears the allocation (resourceclaim controller) and deletes what the Node owned
  (garbage collector).

Nothing else is scheduled there (the node is tainted, and has its own driver and device class), and nothing
stays. The end of the probe's namespace is not awaited: the namespace controller always takes 5 s over it.
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
    """Return when every component has done its job; raise NotReady, naming the one that has not.

    `alive` is called while waiting and raises when a component has ended.
    """
    name = f"controlplane-probe-{secrets.token_hex(4)}"
    try:
        _furnish(api, name)
        _live(api, name, alive, timeout_seconds)
    except BaseException:
        with contextlib.suppress(ControlPlaneError):  # the failure under way is the one to report
            _discard(api, name)
        raise


def _furnish(api: Api, name: str) -> None:
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


def _live(api: Api, name: str, alive: Alive, timeout_seconds: float) -> None:
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
