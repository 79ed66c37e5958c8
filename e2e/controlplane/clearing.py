"""Cleanup of a cluster between tests.

It removes the objects of the controller's kinds in one namespace, and the objects with the label of `fleet`.
No controller runs during the cleanup, so this module also removes the controller's finalizers. With real
kubelets it only waits: a Pod ends with its own grace period, and Kubernetes removes its own finalizers.
"""

from http import HTTPStatus

from e2e.controlplane.api import NOT_FOUND, Api, Object
from e2e.controlplane.errors import ApiRefused
from e2e.controlplane.fleet import NODES, RESOURCE_SLICES, TEST_LABEL
from e2e.controlplane.waiting import wait_until

TIMEOUT_SECONDS = 30
REAL_TIMEOUT_SECONDS = 90  # kubelets stop containers sequentially


def clear_real(api: Api, namespace: str) -> None:
    """Delete the objects in a namespace of a cluster with kubelets, and wait until they are gone."""
    workloads, *others = _collections(namespace)
    for path in _paths(api, workloads):
        api.delete(path)
        _drop_finalizers(api, path)
    for collection in others:
        for path in _paths(api, collection):
            api.delete(path)
    for collection in (workloads, *others):
        wait_until(
            lambda collection=collection: not _items(api, collection),  # type: ignore[misc]
            f"{collection} is not empty",
            timeout_seconds=REAL_TIMEOUT_SECONDS,
        )


def _paths(api: Api, collection: str) -> list[str]:
    return [f"{collection}/{item['metadata']['name']}" for item in _items(api, collection)]


def clear(api: Api, namespace: str) -> None:
    """Delete the objects, and wait until they are gone."""
    collections = _collections(namespace)
    for collection in collections:
        _delete_all(api, collection)
    created = {"labelSelector": TEST_LABEL}
    for collection in (NODES, RESOURCE_SLICES):
        _delete_all(api, collection, **created)
    for collection in collections:
        _await_empty(api, collection)
    for collection in (NODES, RESOURCE_SLICES):
        _await_empty(api, collection, **created)


def _collections(namespace: str) -> list[str]:
    return [
        f"/apis/openrl.io/v1alpha1/namespaces/{namespace}/workloads",
        f"/api/v1/namespaces/{namespace}/pods",
        f"/apis/openrl.io/v1alpha1/namespaces/{namespace}/claimledgers",
        f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
    ]


def _delete_all(api: Api, collection: str, **query: str) -> None:
    for item in _items(api, collection, **query):
        path = f"{collection}/{item['metadata']['name']}"
        if item["metadata"].get("finalizers"):
            _drop_finalizers(api, path)
        api.delete(path, grace_seconds=0)


def _drop_finalizers(api: Api, path: str) -> None:
    try:
        api.patch(path, {"metadata": {"finalizers": None}})
    except ApiRefused as error:
        if error.status != NOT_FOUND:
            raise


def _await_empty(api: Api, collection: str, **query: str) -> None:
    # Repeat the deletion: the scheduler may have restored its finalizer, and the garbage collector may have
    # deleted some objects first.
    def gone() -> bool:
        _delete_all(api, collection, **query)
        return not _items(api, collection, **query)

    wait_until(gone, f"{collection} is not empty", timeout_seconds=TIMEOUT_SECONDS)


def _items(api: Api, collection: str, **query: str) -> list[Object]:
    """List a collection. A collection that is not served (before the installation) is empty.

    For some time after its start, the API server answers 429 because the storage of our kinds is not ready.
    """

    def listed() -> list[Object] | None:
        try:
            return api.items(collection, **query)
        except ApiRefused as error:
            if error.status == NOT_FOUND:
                return []
            if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                return None
            raise

    return wait_until(listed, f"{collection} is not served", timeout_seconds=TIMEOUT_SECONDS)
