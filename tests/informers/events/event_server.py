"""An event server with the API server's rules and scripted failures, and a recorder for it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import anyio
import anyio.lowlevel

from informers.api import Api, Json, Resource, T
from informers.errors import AlreadyExists, Invalid, NotFound
from informers.events.object import EVENTS, EventType, Reference
from informers.events.recorder import EventRecorder, RecorderLimits

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
ENDLESS = 1e9


def clock() -> datetime:
    """A wall clock in step with the virtual clock."""
    return EPOCH + timedelta(seconds=anyio.current_time())


def at(seconds: float) -> str:
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True)
class Lost:
    """The request takes effect and its response is `error`."""

    error: Exception


@dataclass(frozen=True)
class Slow:
    """The response takes this long."""

    seconds: float


Reply = Exception | Lost | Slow | None


@dataclass(frozen=True)
class Request:
    at_seconds: float
    verb: str
    name: str
    count: int
    """Count of the series, 1 without a series."""


@dataclass
class EventServer:
    """Each request takes the next entry of `script`; requests after the last one succeed."""

    script: list[Reply] = field(default_factory=list)
    always: Reply = None
    requests: list[Request] = field(default_factory=list)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def api(self) -> Api:
        return cast("Api", self)

    @property
    def only(self) -> dict[str, Any]:
        (event,) = self.objects.values()
        return event

    def counts(self) -> list[int]:
        return [event.get("series", {}).get("count", 1) for event in self.objects.values()]

    async def create(
        self,
        resource: Resource[T],
        body: Json,
        namespace: str = "",
        *,
        strict: bool = False,
        dry_run: bool = False,
    ) -> T:
        assert resource.plural == EVENTS.plural
        assert (strict, dry_run) == (False, False)
        event = dict(body)
        name = event["metadata"]["name"]
        assert event["metadata"]["namespace"] == namespace
        lost = await self._receive("create", name, event)
        _validate(event)
        if name in self.objects:
            raise AlreadyExists("exists", status=409)
        self.objects[name] = event
        if lost is not None:
            raise lost
        return cast("T", event)

    async def patch(self, resource: Resource[T], name: str, body: Json, namespace: str = "") -> T:
        assert resource.plural == EVENTS.plural
        lost = await self._receive("patch", name, body)
        if name not in self.objects:
            raise NotFound("no such event", status=404)
        event = self.objects[name]
        assert event["metadata"]["namespace"] == namespace
        assert set(body) == {"series"}, "everything else is immutable"
        _validate({**event, **body})
        event |= body
        if lost is not None:
            raise lost
        return cast("T", event)

    async def _receive(self, verb: str, name: str, body: Json) -> Exception | None:
        count = body.get("series", {}).get("count", 1)
        self.requests.append(Request(anyio.current_time(), verb, name, count))
        await anyio.lowlevel.checkpoint()
        reply = self.script.pop(0) if self.script else self.always
        match reply:
            case Slow(seconds):
                await anyio.sleep(seconds)
            case Lost(error):
                return error
            case Exception():
                raise reply
        return None


def _validate(event: Json) -> None:
    series = event.get("series")
    valid = (
        len(event["note"].encode()) <= 1024
        and 0 < len(event["reason"]) <= 128
        and 0 < len(event["action"]) <= 128
        and event["type"] in {"Normal", "Warning"}
        and (series is None or (series["count"] >= 2 and series["lastObservedTime"]))
    )
    if not valid:
        raise Invalid("an event like this is not allowed", status=422)


def make_recorder(
    server: EventServer, limits: RecorderLimits | None = None, *, seed: int = 0
) -> EventRecorder:
    return EventRecorder(
        server.api,
        reporting_controller="example.com/controller",
        reporting_instance="controller-0",
        now=clock,
        rng=random.Random(seed),
        limits=limits or RecorderLimits(),
    )


@asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recorder.run)
        yield
        tasks.cancel_scope.cancel()


def thing(name: str = "thing", uid: str = "") -> Reference:
    return Reference("example.com/v1", "Thing", name, "space", uid or f"uid-{name}")


def record(
    recorder: EventRecorder,
    regarding: Reference | None = None,
    *,
    type_: EventType = EventType.NORMAL,
    reason: str = "Painted",
    action: str = "Painting",
    note: str = "It is blue",
    related: Reference | None = None,
    distinct: str = "",
) -> None:
    recorder.record(
        regarding or thing(),
        type_=type_,
        reason=reason,
        action=action,
        note=note,
        related=related,
        distinct=distinct,
    )
