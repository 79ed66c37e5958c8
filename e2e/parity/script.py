"""A case on its way: each call is carried out and written down, whatever comes of it.

Versions become their rank among those that the case saw, UIDs the order of their first appearance, times a
word. Of an object only what was compared on purpose is written: Pods, for one, have defaults by the dozen.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from e2e.parity.objects import PROJECTIONS, RawObject
from informers.api import (
    Api,
    PatchType,
    Preconditions,
    Resource,
    Selectors,
    WatchEventType,
    version_number,
)
from informers.errors import ApiError

Document = dict[str, Any]
Thing = Resource[RawObject]

NAMESPACE = "openrl-system"
SENTINEL = "parity-sentinel"
WATCH_SECONDS = 20
EVERYTHING = Selectors()

_METADATA = ("labels", "annotations", "finalizers", "generation", "deletionGracePeriodSeconds")


class Script:
    """The calls of one case and what was heard. Methods return the document, or `None` after a failure."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._lines: list[Callable[[], str]] = []
        self._versions: set[int] = set()
        self._uids: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Script lines={len(self._lines)}>"

    def transcript(self) -> list[str]:
        """What was heard, comparable with another run."""
        return [line() for line in self._lines]

    def note(self, text: str) -> None:
        """Write down an observation of the case itself."""
        self._lines.append(lambda: text)

    # Calls.

    async def get(self, thing: Thing, name: str, namespace: str = NAMESPACE) -> Document | None:
        where = _where(thing, namespace)
        return await self._told(f"get {name}", self.api.get(thing, name, where))

    async def create(
        self, thing: Thing, body: Document, namespace: str = NAMESPACE, *, strict: bool = False
    ) -> Document | None:
        name = body.get("metadata", {}).get("name", "")
        body = {"apiVersion": thing.api_version, "kind": thing.kind, **body}
        call = self.api.create(thing, body, _where(thing, namespace), strict=strict)
        return await self._told(f"create {name}", call)

    async def patch(
        self,
        thing: Thing,
        name: str,
        body: Any,
        *,
        subresource: str = "",
        kind: PatchType = PatchType.MERGE,
    ) -> Document | None:
        call = self.api.patch(
            thing, name, body, _where(thing, NAMESPACE), subresource=subresource, patch_type=kind
        )
        return await self._told(f"patch {name} {subresource}".rstrip(), call)

    async def update(
        self, thing: Thing, name: str, body: Document, *, subresource: str = ""
    ) -> Document | None:
        call = self.api.update(thing, name, body, _where(thing, NAMESPACE), subresource=subresource)
        return await self._told(f"update {name} {subresource}".rstrip(), call)

    async def delete(
        self, thing: Thing, name: str, *, uid: str | None = None, version: str | None = None
    ) -> Document | None:
        call = self.api.delete(
            thing, name, _where(thing, NAMESPACE), preconditions=Preconditions(uid, version)
        )
        return await self._told(f"delete {name}", call)

    async def list_names(
        self,
        thing: Thing,
        *,
        labels: str = "",
        fields: str = "",
        version: str = "",
        limit: int = 0,
        token: str = "",
    ) -> str:
        """Write the names of one page down; returns the token for the next."""
        what = " ".join(part for part in ("list", labels, fields) if part)
        try:
            page = await self.api.list_page(
                thing,
                _where(thing, NAMESPACE),
                selectors=Selectors(labels, fields),
                resource_version=version,
                limit=limit,
                continue_token=token,
            )
        except ApiError as error:
            self.note(f"{what}: {_failure(error)}")
            return ""
        names = [item.metadata.name for item in page.items]
        self.note(f"{what}: {names}{' and more' if page.continue_token else ''}")
        return page.continue_token

    async def _told(self, what: str, call: Awaitable[RawObject | None]) -> Document | None:
        try:
            answer = await call
        except ApiError as error:
            self.note(f"{what}: {_failure(error)}")
            return None
        if answer is None:
            self.note(f"{what}: a Status")
            return None
        self._write(what, answer.document)
        return answer.document

    # Watches.

    @asynccontextmanager
    async def watching(
        self, thing: Thing, *, sentinel: Document, labels: str = "", fields: str = ""
    ) -> AsyncIterator[None]:
        """Write down, at the end, what a watch showed of the block.

        The end is known by the deletion of a `sentinel`, an object that the selectors let through.
        """
        page = await self.api.list_page(thing, _where(thing, NAMESPACE))
        yield
        body = {"apiVersion": thing.api_version, "kind": thing.kind, **sentinel}
        body["metadata"] = {**body.get("metadata", {}), "name": SENTINEL}
        await self.api.create(thing, body, _where(thing, NAMESPACE))
        await self.api.delete(thing, SENTINEL, _where(thing, NAMESPACE))
        await self._follow(thing, page.resource_version, Selectors(labels, fields))

    async def _follow(self, thing: Thing, version: str, selectors: Selectors) -> None:
        async with self.api.watch(
            thing,
            _where(thing, NAMESPACE),
            resource_version=version,
            timeout_seconds=WATCH_SECONDS,
            idle_seconds=WATCH_SECONDS,
            selectors=selectors,
        ) as events:
            async for event in events:
                if event.object is None:
                    continue
                if event.object.metadata.name != SENTINEL:
                    self._write(
                        f"seen {event.type.value} {event.object.metadata.name}", event.object.document
                    )
                elif event.type is WatchEventType.DELETED:
                    return
        self.note("the watch ended before all was seen")

    async def watch_from(
        self, thing: Thing, version: str, *, until: Iterable[str] = (), timeout_seconds: int = 1
    ) -> None:
        """Write down what a watch from `version` shows of the objects named in `until`, or how it ends."""
        left, shown = list(until), list[str]()
        try:
            with anyio.fail_after(WATCH_SECONDS):
                async with self.api.watch(
                    thing,
                    _where(thing, NAMESPACE),
                    resource_version=version,
                    timeout_seconds=timeout_seconds,
                    idle_seconds=WATCH_SECONDS,
                ) as events:
                    async for event in events:
                        if event.object is not None and event.object.metadata.name in left:
                            left.remove(event.object.metadata.name)
                            shown.append(f"{event.type.value} {event.object.metadata.name}")
        except ApiError as error:
            self.note(f"watch: {_failure(error)}")
            return
        # What is there at the start comes in no order that could be relied on.
        self.note(f"watch: {sorted(shown)}, closed{', not seen: ' + str(left) if left else ''}")

    # Writing down.

    def _write(self, what: str, document: Document) -> None:
        metadata = document["metadata"]
        version = version_number(metadata["resourceVersion"])
        self._versions.add(version)
        shown: Document = {"uid": f"uid-{self._uids.setdefault(metadata['uid'], len(self._uids) + 1)}"}
        shown |= {name: metadata[name] for name in _METADATA if name in metadata}
        shown |= {"deleting": True} if "deletionTimestamp" in metadata else {}
        shown |= PROJECTIONS[document["kind"]](document)
        self._lines.append(lambda: f"{what}: v{self._rank(version)} {_text(shown)}")

    def _rank(self, version: int) -> int:
        return sorted(self._versions).index(version) + 1


def _where(thing: Thing, namespace: str) -> str:
    return namespace if thing.namespaced else ""


def _failure(error: ApiError) -> str:
    return f"{type(error).__name__} ({error.status} {error.reason})"


def _text(shown: Document) -> str:
    return json.dumps(shown, sort_keys=True, separators=(", ", ": "))
