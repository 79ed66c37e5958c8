"""Leaving a cluster as a test found it, for the next one.

Only what tests make is removed: everything of the kinds that the controller handles in one namespace, and
what `fleet` furnished (told by its label). No controller runs while this does, so finalizers that only it
would remove are dropped here. Where kubelets are real, that is all: a Pod ends in its own time, and what
Kubernetes keeps is for Kubernetes to let go.
"""

from http import HTTPStatus

from e2e.controlplane.api import NOT_FOUND, Api, Object
from e2e.controlplane.errors import ApiRefused
from e2e.controlplane.fleet import FURNISHED, NODES, RESOURCE_SLICES
from e2e.controlplane.waiting import wait_until

TIMEOUT_SECONDS = 30
REAL_TIMEOUT_SECONDS = 90  # kubelets stop containers one after the other


def clear_real(api: Api, namespace: str) -> None:
    """Delete in a namespace of a cluster with kubelets, then wait until everything is gone."""
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
    """Delete, then wait until everything is gone."""
    collections = _collections(namespace)
    for collection in collections:
        _delete_all(api, collection)
    furnished = {"labelSelector": FURNISHED}
    for collection in (NODES, RESOURCE_SLICES):
        _delete_all(api, collection, **furnished)
    for collection in collections:
        _await_empty(api, collection)
    for collection in (NODES, RESOURCE_SLICES):
        _await_empty(api, collection, **furnished)


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
    # Deleted again and again: a scheduler at work may have put its finalizer back, a garbage collector
    # may have been quicker.
    def gone() -> bool:
        _delete_all(api, collection, **query)
        return not _items(api, collection, **query)

    wait_until(gone, f"{collection} is not empty", timeout_seconds=TIMEOUT_SECONDS)


def _items(api: Api, collection: str, **query: str) -> list[Object]:
    """List a collection; one that is not served (nothing installed yet) is empty.

    A server that has just started says for a while that the storage of our kinds is not there yet.
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
