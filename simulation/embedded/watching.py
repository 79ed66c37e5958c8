"""Watches over HTTP: one line of JSON per event, until the timeout or until the client disconnects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from http import HTTPStatus
from random import Random

import anyio
import msgspec
from aiohttp import web

from informers.api import Selectors, WatchEventType
from simulation.apiserver.documents import Document, Record
from simulation.apiserver.kinds import EVENTS
from simulation.apiserver.selectors import compile_selectors
from simulation.apiserver.store import Store
from simulation.apiserver.watches import Watch, Watches
from simulation.embedded.objects import ObjectHandler
from simulation.embedded.parameters import ReadOptions, read_options
from simulation.embedded.printing.tables import Rendering
from simulation.embedded.served import CORE_EVENTS, Target, as_core_event

DEFAULT_SECONDS = (1800.0, 3600.0)
"""The range of the default watch timeout, which is random as on real servers."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Line(msgspec.Struct):
    """One event of a watch."""

    type: str
    object: Document


class WatchHandler:
    """Handles watch requests."""

    def __init__(self, store: Store, watches: Watches, objects: ObjectHandler, rng: Random) -> None:
        self._store = store
        self._watches = watches
        self._objects = objects
        self._rng = rng

    def __repr__(self) -> str:
        return f"<WatchHandler {self._watches!r}>"

    def end(self) -> None:
        """End all watches."""
        for watch in self._watches.matching():
            watch.end()

    async def handle(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Stream one watch. Raises `Refusal` before the first byte."""
        options = read_options(request.query)
        rendering = self._objects.rendering(request, target, options)
        with self._open(request, target, options) as (initial, watch):
            response = web.StreamResponse(status=HTTPStatus.OK, headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for line in initial:
                await response.write(_render(line, rendering))
            async with aclosing(self._lines(watch, target, options)) as lines:
                async for line in lines:
                    await response.write(_render(line, rendering))
            await response.write_eof()
            return response

    @contextmanager
    def _open(
        self, request: web.Request, target: Target, options: ReadOptions
    ) -> Iterator[tuple[list[Line], Watch]]:
        """Yield the initial events and the watch."""
        kind = EVENTS if target.kind is CORE_EVENTS else target.kind
        selectors = _selectors(target, options)
        initial: list[Line] = []
        version = options.resource_version
        compile_selectors(target.kind, selectors)  # refused before the stream begins
        if options.initial_events:
            everything = replace(
                options, selectors=selectors, resource_version="", exact=False, limit=0, continue_token=""
            )
            records, _ = self._objects.page(target, everything)
            version = str(self._store.revision)
            initial = [Line(WatchEventType.ADDED.value, record.document) for record in records]
            initial += [_end_of_initial_events(target, version)] if options.bookmarks else []
        # `v1` Events have other selectable fields, so they are filtered below.
        own = Selectors() if target.kind is CORE_EVENTS else selectors
        client = request.headers.get("User-Agent", "")
        watch = self._watches.open(client, kind, target.namespace, own, version)
        try:
            yield initial, watch
        finally:
            self._watches.forget(watch)

    async def _lines(self, watch: Watch, target: Target, options: ReadOptions) -> AsyncGenerator[Line, None]:
        seconds = options.timeout_seconds or self._rng.uniform(*DEFAULT_SECONDS)
        closes_seconds = anyio.current_time() + seconds
        matches = compile_selectors(target.kind, _selectors(target, options))
        while not watch.ended:
            data = await watch.read(closes_seconds)
            if data is None:
                return
            line = msgspec.json.decode(data, type=Line)
            if line.type == WatchEventType.BOOKMARK.value:
                if options.bookmarks:
                    line.object["apiVersion"] = target.kind.api_version
                    yield line
            elif target.kind is not CORE_EVENTS or line.type == "ERROR":
                yield line
            else:
                old = as_core_event(line.object)
                if matches(old):
                    yield Line(line.type, old)


def _selectors(target: Target, options: ReadOptions) -> Selectors:
    """Return the selectors of the request, including the name in the path."""
    by_name = f"metadata.name={target.name}" if target.name else ""
    fields = ",".join(part for part in (by_name, options.selectors.fields) if part)
    return Selectors(options.selectors.labels, fields)


def _end_of_initial_events(target: Target, version: str) -> Line:
    annotations = {INITIAL_EVENTS_END: "true"}
    metadata = {"resourceVersion": version, "annotations": annotations}
    document = {"kind": target.kind.kind, "apiVersion": target.kind.api_version, "metadata": metadata}
    return Line(WatchEventType.BOOKMARK.value, document)


def _render(line: Line, rendering: Rendering) -> bytes:
    plain = line.type in {"ERROR", WatchEventType.BOOKMARK.value}
    data = (
        msgspec.json.encode(line.object) if plain else rendering.render_object(Record(line.object).document)
    )
    return msgspec.json.encode({"type": line.type, "object": msgspec.Raw(data)}) + b"\n"
