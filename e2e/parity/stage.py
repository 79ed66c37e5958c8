"""A scene on its way: a cluster is furnished, something happens, and each object's story is written down.

Only the client port is used, so that the cluster may be a real one or a simulated one. Stories are kept by
object, since the order between objects is nobody's promise; of a Pod they tell where it was put and why not,
of a claim how it was allocated. What a kubelet does to a Pod that ends is left out: the real
cluster has none.
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
Thing = Resource[RawObject]

NAMESPACE = "openrl-system"
FURNISHED = {"e2e.harness.workloads.io/furnished": "true"}
SCENE_SECONDS = 25.0
LOOK_SECONDS = 0.05

Observe = Callable[[Document], object]


class Stage:
    """A cluster and the stories of the Pods and claims in it."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._stories: dict[tuple[str, str], list[str]] = {}
        self._uids: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Stage stories={len(self._stories)}>"

    def transcript(self) -> list[str]:
        """All stories, by kind and name."""
        return [
            f"{kind} {name}: {line}"
            for (kind, name), lines in sorted(self._stories.items())
            for line in lines
        ]

    # Furnishing.

    async def device_class(self, name: str = DRIVER) -> None:
        """Make the device class, unless it is there."""
        selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
        try:
            await self.api.get(DEVICE_CLASSES, name)
        except NotFound:
            await self.make(DEVICE_CLASSES, _named(name, {"selectors": selectors}))

    async def node(self, name: str, *memories: str | None, memory: str = "512Gi", pods: int = 110) -> None:
        """A ready Node with one GPU of each size; `None` is a device without memory."""
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

    async def make(self, thing: Thing, body: Document) -> Document:
        """Create an object."""
        named = {"apiVersion": thing.api_version, "kind": thing.kind, **body}
        created = await self.api.create(thing, named, _where(thing))
        return created.document

    async def change(self, thing: Thing, name: str, patch: Document, *, subresource: str = "") -> None:
        """Apply a merge patch."""
        where, kind = _where(thing), PatchType.MERGE
        await self.api.patch(thing, name, patch, where, subresource=subresource, patch_type=kind)

    async def remove(self, thing: Thing, name: str) -> None:
        """Delete an object."""
        await self.api.delete(thing, name, _where(thing))

    # Waiting.

    async def until(self, thing: Thing, name: str, observe: Observe) -> Document:
        """The object once `observe` finds in it what is awaited."""
        with anyio.fail_after(SCENE_SECONDS):
            while True:
                document = await self.find(thing, name)
                if document is not None and observe(document):
                    return document
                await anyio.sleep(LOOK_SECONDS)

    async def until_gone(self, thing: Thing, name: str) -> None:
        """Return once there is no such object."""
        with anyio.fail_after(SCENE_SECONDS):
            while True:
                if await self.find(thing, name) is None:
                    return
                await anyio.sleep(LOOK_SECONDS)

    async def find(self, thing: Thing, name: str) -> Document | None:
        """An object that may be absent."""
        try:
            return (await self.api.get(thing, name, _where(thing))).document
        except NotFound:
            return None

    async def running(self, name: str) -> Document:
        """A Pod once it runs."""
        return await self.until(PODS, name, lambda pod: pod["status"].get("phase") == "Running")

    async def refused(self, name: str, *words: str) -> Document:
        """A Pod once the scheduler's message says these words."""
        return await self.until(
            PODS, name, lambda pod: all(word in _scheduled(pod).get("message", "") for word in words)
        )

    # Stories.

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Write down what happens to Pods and claims during the block."""
        async with anyio.create_task_group() as tasks:
            for thing in (PODS, CLAIMS):
                page = await self.api.list_page(thing, NAMESPACE)
                tasks.start_soon(self._follow, thing, page.resource_version)
            yield
            # The watches show what the block saw by other means; give the last lines time to arrive.
            await anyio.sleep(1)
            tasks.cancel_scope.cancel()

    async def _follow(self, thing: Thing, version: str) -> None:
        seconds = int(SCENE_SECONDS * 4)
        try:
            async with self.api.watch(
                thing, NAMESPACE, resource_version=version, timeout_seconds=seconds, idle_seconds=seconds
            ) as events:
                async for event in events:
                    if event.object is not None:
                        self._tell(thing, event.type.value, event.object.document)
        except ApiError as error:
            raise AssertionError(f"the watch of {thing} failed") from error

    def _tell(self, thing: Thing, type_: str, document: Document) -> None:
        metadata = document["metadata"]
        self._uids[metadata["uid"]] = metadata["name"]
        ending = "deletionTimestamp" in metadata
        if type_ == "DELETED" or (ending and thing is PODS):
            line = "gone" if thing is CLAIMS else "ends"
        else:
            shown = _of_pod(document) if thing is PODS else self._of_claim(document)
            line = json.dumps(shown, sort_keys=True)
        story = self._stories.setdefault((thing.kind, metadata["name"]), [])
        if story[-1:] != [line]:
            story.append(line)

    def _of_claim(self, document: Document) -> Document:
        metadata, status = document["metadata"], document.get("status") or {}
        shown: Document = {"deleting": True} if "deletionTimestamp" in metadata else {}
        allocation = status.get("allocation")
        if allocation:
            shown["allocation"] = {key: allocation[key] for key in ("devices", "nodeSelector")}
            # Whether a finalizer goes before the next allocation needs it again is a race.
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


def _where(thing: Thing) -> str:
    return NAMESPACE if thing.namespaced else ""
