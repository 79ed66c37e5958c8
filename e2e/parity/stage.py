"""The run of a scene: nodes are created, something changes, and the history of each object is recorded.

Only the client port is used, so the cluster may be real or simulated. Histories are kept per object, because
the order between objects is undefined. For a Pod they record its scheduling, for a claim its allocation. They
leave out what happens to a Pod after it is deleted, because the real control plane has no kubelet.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from e2e.parity.objects import CLAIMS, DEVICE_CLASSES, DRIVER, NODES, PODS, SLICES, RawObject
from informers.api import Api, PatchType, Resource
from informers.errors import ApiError, NotFound

Document = dict[str, Any]
AnyResource = Resource[RawObject]

NAMESPACE = "openrl-system"
FURNISHED = {"e2e.harness.workloads.io/furnished": "true"}
SCENE_SECONDS = 25.0
POLL_SECONDS = 0.05

Observe = Callable[[Document], object]


class Stage:
    """A cluster and the histories of its Pods and claims."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._histories: dict[tuple[str, str], list[str]] = {}
        self._uids: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Stage histories={len(self._histories)}>"

    def transcript(self) -> list[str]:
        """Return all histories, by kind and name."""
        return [
            f"{kind} {name}: {line}"
            for (kind, name), lines in sorted(self._histories.items())
            for line in lines
        ]

    # Creating objects.

    async def device_class(self, name: str = DRIVER) -> None:
        """Create the device class if it does not exist."""
        selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
        try:
            await self.api.get(DEVICE_CLASSES, name)
        except NotFound:
            await self.make(DEVICE_CLASSES, _named(name, {"selectors": selectors}))

    async def node(self, name: str, *memories: str | None, memory: str = "512Gi", pods: int = 110) -> None:
        """Create a ready Node with one GPU of each size; `None` is a device without memory."""
        await self.device_class()
        resources = {"cpu": "8", "memory": memory, "pods": str(pods)}
        conditions = [{"type": "Ready", "status": "True", "reason": "Furnished"}]
        status = {"capacity": resources, "allocatable": resources, "conditions": conditions}
        labels = {"kubernetes.io/hostname": name, "openrl.io/enabled": "true", **FURNISHED}
        body = {**_named(name, {}), "status": status}
        body["metadata"]["labels"] = labels
        made = await self.make(NODES, body)
        devices = [
            {"name": f"gpu-{index}", **({"capacity": {"memory": {"value": size}}} if size else {})}
            for index, size in enumerate(memories)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        published = _named(f"{name}-{DRIVER}", spec)
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": made["metadata"]["uid"]}
        published["metadata"]["ownerReferences"] = [owner]
        await self.make(SLICES, published)

    async def make(self, resource: AnyResource, body: Document) -> Document:
        """Create an object."""
        named = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        created = await self.api.create(resource, named, _namespace_of(resource))
        return created.document

    async def change(
        self, resource: AnyResource, name: str, patch: Document, *, subresource: str = ""
    ) -> None:
        """Apply a merge patch."""
        namespace, kind = _namespace_of(resource), PatchType.MERGE
        await self.api.patch(resource, name, patch, namespace, subresource=subresource, patch_type=kind)

    async def remove(self, resource: AnyResource, name: str) -> None:
        """Delete an object."""
        await self.api.delete(resource, name, _namespace_of(resource))

    # Waiting.

    async def until(self, resource: AnyResource, name: str, observe: Observe) -> Document:
        """Wait until `observe` accepts the object, and return it."""
        with anyio.fail_after(SCENE_SECONDS):
            while True:
                document = await self.find(resource, name)
                if document is not None and observe(document):
                    return document
                await anyio.sleep(POLL_SECONDS)

    async def until_gone(self, resource: AnyResource, name: str) -> None:
        """Wait until the object does not exist."""
        with anyio.fail_after(SCENE_SECONDS):
            while True:
                if await self.find(resource, name) is None:
                    return
                await anyio.sleep(POLL_SECONDS)

    async def find(self, resource: AnyResource, name: str) -> Document | None:
        """Return an object, or `None` if it does not exist."""
        try:
            return (await self.api.get(resource, name, _namespace_of(resource))).document
        except NotFound:
            return None

    async def running(self, name: str) -> Document:
        """Wait until a Pod runs, and return it."""
        return await self.until(PODS, name, lambda pod: pod["status"].get("phase") == "Running")

    async def unschedulable(self, name: str, *words: str) -> Document:
        """Wait until the scheduler's message for a Pod contains these texts, and return the Pod."""
        return await self.until(
            PODS, name, lambda pod: all(word in _scheduled(pod).get("message", "") for word in words)
        )

    # Histories.

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Record the changes of Pods and claims during the block."""
        async with anyio.create_task_group() as tasks:
            for resource in (PODS, CLAIMS):
                page = await self.api.list_page(resource, NAMESPACE)
                tasks.start_soon(self._follow, resource, page.resource_version)
            yield
            # The block saw the changes by other means; wait for the last events of the watches.
            await anyio.sleep(1)
            tasks.cancel_scope.cancel()

    async def _follow(self, resource: AnyResource, version: str) -> None:
        seconds = int(SCENE_SECONDS * 4)
        try:
            async with self.api.watch(
                resource, NAMESPACE, resource_version=version, timeout_seconds=seconds, idle_seconds=seconds
            ) as events:
                async for event in events:
                    if event.object is not None:
                        self._append(resource, event.type.value, event.object.document)
        except ApiError as error:
            raise AssertionError(f"the watch of {resource} failed") from error

    def _append(self, resource: AnyResource, type_: str, document: Document) -> None:
        metadata = document["metadata"]
        self._uids[metadata["uid"]] = metadata["name"]
        ending = "deletionTimestamp" in metadata
        if type_ == "DELETED" or (ending and resource is PODS):
            line = "gone" if resource is CLAIMS else "ends"
        else:
            shown = _of_pod(document) if resource is PODS else self._of_claim(document)
            line = json.dumps(shown, sort_keys=True)
        history = self._histories.setdefault((resource.kind, metadata["name"]), [])
        if history[-1:] != [line]:
            history.append(line)

    def _of_claim(self, document: Document) -> Document:
        metadata, status = document["metadata"], document.get("status") or {}
        shown: Document = {"deleting": True} if "deletionTimestamp" in metadata else {}
        allocation = status.get("allocation")
        if allocation:
            shown["allocation"] = {key: allocation[key] for key in ("devices", "nodeSelector")}
            # Whether a finalizer is removed before the next allocation adds it again is a race.
            shown["finalizers"] = metadata.get("finalizers")
        if status.get("reservedFor"):
            names = [self._uids.get(each["uid"], each["name"]) for each in status["reservedFor"]]
            shown["reservedFor"] = sorted(names)
        return shown


def _of_pod(document: Document) -> Document:
    scheduled = _scheduled(document)
    shown = {key: scheduled[key] for key in ("status", "reason", "message") if scheduled.get(key)}
    node, nominated = document["spec"].get("nodeName"), document["status"].get("nominatedNodeName")
    return {
        "phase": document["status"].get("phase"),
        **({"scheduled": shown} if shown else {}),
        **({"node": node} if node else {}),
        **({"nominated": nominated} if nominated else {}),
    }


def _scheduled(document: Document) -> Document:
    conditions = document["status"].get("conditions") or ()
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def _named(name: str, spec: Document) -> Document:
    return {"metadata": {"name": name, "labels": dict(FURNISHED)}, "spec": spec}


def _namespace_of(resource: AnyResource) -> str:
    return NAMESPACE if resource.namespaced else ""
