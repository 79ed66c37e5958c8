"""The run of a case: each call is made and recorded, whether it succeeds or fails.

Versions are replaced by their rank among the versions of the case, UIDs by their order of appearance, and
times are left out. Only selected fields of an object are recorded, because Pods, for example, have dozens of
defaults.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from e2e.parity.objects import PROJECTIONS, AnyResource, RawObject
from e2e.parity.owner import Owner
from informers.api import (
    Api,
    PatchType,
    Preconditions,
    Selectors,
    WatchEventType,
    version_number,
)
from informers.errors import ApiError

Document = dict[str, Any]

NAMESPACE = "openrl-system"
SENTINEL = "parity-sentinel"
WATCH_SECONDS = 20
EVERYTHING = Selectors()

_METADATA = ("labels", "annotations", "finalizers", "generation", "deletionGracePeriodSeconds")


class Script:
    """The calls and the transcript of one case. Methods return the document, or `None` after a failure."""

    def __init__(self, api: Api, owner: Owner) -> None:
        self.api = api
        self.owner = owner
        self._lines: list[Callable[[], str]] = []
        self._versions: set[int] = set()
        self._uids: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Script lines={len(self._lines)}>"

    def transcript(self) -> list[str]:
        """Return the transcript, comparable with that of another run."""
        return [line() for line in self._lines]

    def note(self, text: str) -> None:
        """Record an observation of the case itself."""
        self._lines.append(lambda: text)

    # Calls.

    async def get(self, resource: AnyResource, name: str, namespace: str = NAMESPACE) -> Document | None:
        namespace = _namespace_of(resource, namespace)
        return await self._record(f"get {name}", self.api.get(resource, name, namespace))

    async def create(
        self, resource: AnyResource, body: Document, namespace: str = NAMESPACE, *, strict: bool = False
    ) -> Document | None:
        name = body.get("metadata", {}).get("name", "")
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        call = self.api.create(resource, body, _namespace_of(resource, namespace), strict=strict)
        return await self._record(f"create {name}", call)

    async def dry_run(self, resource: AnyResource, body: Document) -> None:
        """Record the answer to a dry run of a creation. It has no version."""
        answer = await self._send(resource, body, dry_run=True)
        shown = PROJECTIONS[resource.kind](answer.document)
        self.note(f"dry run {body['metadata']['name']}: {_text(shown)}")

    async def refused(
        self, resource: AnyResource, body: Document, *, dry_run: bool = False, words: bool = True
    ) -> None:
        """Record a refused creation with the server's message."""
        what = f"{'dry run' if dry_run else 'create'} {body['metadata']['name']}"
        try:
            await self._send(resource, body, dry_run=dry_run)
        except ApiError as error:
            said = f": {error.message.partition(': ')[2]}" if words else ""
            self.note(f"{what}: {_failure(error)}{said}")
        else:
            self.note(f"{what}: not refused")

    async def _send(self, resource: AnyResource, body: Document, *, dry_run: bool) -> RawObject:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self.api.create(resource, body, _namespace_of(resource, NAMESPACE), dry_run=dry_run)

    async def patch(
        self,
        resource: AnyResource,
        name: str,
        body: Any,
        *,
        subresource: str = "",
        kind: PatchType = PatchType.MERGE,
    ) -> Document | None:
        call = self.api.patch(
            resource, name, body, _namespace_of(resource, NAMESPACE), subresource=subresource, patch_type=kind
        )
        return await self._record(f"patch {name} {subresource}".rstrip(), call)

    async def update(
        self, resource: AnyResource, name: str, body: Document, *, subresource: str = ""
    ) -> Document | None:
        call = self.api.update(
            resource, name, body, _namespace_of(resource, NAMESPACE), subresource=subresource
        )
        return await self._record(f"update {name} {subresource}".rstrip(), call)

    async def delete(
        self, resource: AnyResource, name: str, *, uid: str | None = None, version: str | None = None
    ) -> Document | None:
        call = self.api.delete(
            resource, name, _namespace_of(resource, NAMESPACE), preconditions=Preconditions(uid, version)
        )
        return await self._record(f"delete {name}", call)

    async def list_names(
        self,
        resource: AnyResource,
        *,
        labels: str = "",
        fields: str = "",
        version: str = "",
        limit: int = 0,
        token: str = "",
    ) -> str:
        """Record the names of one page, and return the token of the next."""
        what = " ".join(part for part in ("list", labels, fields) if part)
        try:
            page = await self.api.list_page(
                resource,
                _namespace_of(resource, NAMESPACE),
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

    async def _record(self, what: str, call: Awaitable[RawObject | None]) -> Document | None:
        try:
            answer = await call
        except ApiError as error:
            self.note(f"{what}: {_failure(error)}")
            return None
        if answer is None:
            self.note(f"{what}: a Status")
            return None
        self._record_object(what, answer.document)
        return answer.document

    # Watches.

    @asynccontextmanager
    async def watching(
        self, resource: AnyResource, *, sentinel: Document, labels: str = "", fields: str = ""
    ) -> AsyncIterator[None]:
        """Watch during the block, and record at its end the events of the watch.

        The watch is complete when it shows the deletion of a `sentinel`, an object that the selectors match.
        """
        page = await self.api.list_page(resource, _namespace_of(resource, NAMESPACE))
        yield
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **sentinel}
        body["metadata"] = {**body.get("metadata", {}), "name": SENTINEL}
        await self.api.create(resource, body, _namespace_of(resource, NAMESPACE))
        await self.api.delete(resource, SENTINEL, _namespace_of(resource, NAMESPACE))
        await self._follow(resource, page.resource_version, Selectors(labels, fields))

    async def _follow(self, resource: AnyResource, version: str, selectors: Selectors) -> None:
        async with self.api.watch(
            resource,
            _namespace_of(resource, NAMESPACE),
            resource_version=version,
            timeout_seconds=WATCH_SECONDS,
            idle_seconds=WATCH_SECONDS,
            selectors=selectors,
        ) as events:
            async for event in events:
                if event.object is None:
                    continue
                if event.object.metadata.name != SENTINEL:
                    self._record_object(
                        f"seen {event.type.value} {event.object.metadata.name}", event.object.document
                    )
                elif event.type is WatchEventType.DELETED:
                    return
        self.note("the watch ended before all was seen")

    async def watch_from(
        self, resource: AnyResource, version: str, *, until: Iterable[str] = (), timeout_seconds: int = 1
    ) -> None:
        """Record what a watch from `version` shows of the objects in `until`, or how it ends."""
        left, shown = list(until), list[str]()
        try:
            with anyio.fail_after(WATCH_SECONDS):
                async with self.api.watch(
                    resource,
                    _namespace_of(resource, NAMESPACE),
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
        # Existing objects arrive in no defined order.
        self.note(f"watch: {sorted(shown)}, closed{', not seen: ' + str(left) if left else ''}")

    # Recording.

    def _record_object(self, what: str, document: Document) -> None:
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


def _namespace_of(resource: AnyResource, namespace: str) -> str:
    return namespace if resource.namespaced else ""


def _failure(error: ApiError) -> str:
    return f"{type(error).__name__} ({error.status} {error.reason})"


def _text(shown: Document) -> str:
    return json.dumps(shown, sort_keys=True, separators=(", ", ": "))
