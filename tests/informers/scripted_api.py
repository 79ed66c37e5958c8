"""An `Api` that answers lists and watches from a script and records the requests.

Each list takes the next entry of `lists`, each watch the next of `watches`. A request after the last entry
hangs, so that a test detects superfluous requests. A watch's script contains events, pauses in seconds and
exceptions to raise; its end is a clean close.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NoReturn, Self, cast

import anyio

from informers.api import (
    Json,
    Page,
    PatchType,
    Preconditions,
    Resource,
    Selectors,
    T,
    UnreadableObject,
    WatchEvent,
    WatchEventType,
)
from informers.cache.dispatch import Registration
from informers.cache.informer import SharedInformer
from informers.errors import OutcomeUnknown


@dataclass(frozen=True)
class Meta:
    name: str
    namespace: str
    uid: str
    resource_version: str


@dataclass(frozen=True)
class Thing:
    metadata: Meta
    colours: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.metadata.name}@{self.metadata.resource_version}"


def never_decodes(data: bytes) -> NoReturn:
    raise ValueError(f"the script holds decoded objects: {data!r}")


THINGS: Resource[Thing] = Resource(
    "example.com", "v1", "things", "Thing", namespaced=True, decode=never_decodes
)


def thing(name: str, version: int, *colours: str, uid: str = "") -> Thing:
    return Thing(Meta(name, "space", uid or f"uid-{name}", str(version)), colours)


def bad_thing(name: str, version: int, uid: str = "") -> UnreadableObject:
    return UnreadableObject(name, "space", uid or f"uid-{name}", str(version), "colours: expected an array")


def page(
    version: int, *things: Thing, unreadable: Iterable[UnreadableObject] = (), then: str = ""
) -> Page[Thing]:
    return Page(list(things), list(unreadable), str(version), then)


def deliver(answer: Page[T], on_object: Callable[[T], object] | None) -> Page[T]:
    """Return a page with its objects, or pass them to `on_object` one by one."""
    if on_object is None:
        return answer
    for obj in answer.items:
        on_object(obj)
    return replace(answer, items=[])


def _event(kind: WatchEventType, subject: Thing | UnreadableObject) -> WatchEvent[Thing]:
    if isinstance(subject, UnreadableObject):
        return WatchEvent(kind, subject.resource_version, unreadable=subject)
    return WatchEvent(kind, subject.metadata.resource_version, object=subject)


def added(subject: Thing | UnreadableObject) -> WatchEvent[Thing]:
    return _event(WatchEventType.ADDED, subject)


def modified(subject: Thing | UnreadableObject) -> WatchEvent[Thing]:
    return _event(WatchEventType.MODIFIED, subject)


def deleted(subject: Thing | UnreadableObject) -> WatchEvent[Thing]:
    return _event(WatchEventType.DELETED, subject)


def bookmark(version: int) -> WatchEvent[Thing]:
    return WatchEvent(WatchEventType.BOOKMARK, str(version))


class Step(Enum):
    """Steps of a scripted watch other than events."""

    HANG = "wait forever"
    SILENCE = "send nothing for idle_seconds, then fail as `Api.watch` specifies"


@dataclass(frozen=True)
class Refused:
    """A watch that cannot be opened."""

    error: Exception


ListReply = Page[Thing] | BaseException
WatchStep = WatchEvent[Thing] | BaseException | float | Step
WatchReply = Sequence[WatchStep] | Refused


@dataclass(frozen=True)
class ListRequest:
    at_seconds: float
    resource_version: str
    limit: int
    continue_token: str


@dataclass(frozen=True)
class WatchRequest:
    at_seconds: float
    resource_version: str
    timeout_seconds: int
    idle_seconds: float


@dataclass
class ScriptedApi:
    lists: list[ListReply] = field(default_factory=list)
    watches: list[WatchReply] = field(default_factory=list)
    list_requests: list[ListRequest] = field(default_factory=list)
    watch_requests: list[WatchRequest] = field(default_factory=list)

    async def list_page(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selectors: Selectors = Selectors(),  # noqa: B008 - the port's own signature
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
        on_object: Callable[[T], object] | None = None,
    ) -> Page[T]:
        assert (resource.plural, namespace, selectors) == ("things", "", Selectors())
        now = anyio.current_time()
        self.list_requests.append(ListRequest(now, resource_version, limit, continue_token))
        await anyio.lowlevel.checkpoint()
        if not self.lists:
            await anyio.sleep_forever()
        reply = self.lists.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return deliver(cast("Page[T]", reply), on_object)

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        timeout_seconds: int,
        idle_seconds: float,
        selectors: Selectors = Selectors(),  # noqa: B008 - the port's own signature
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        assert (resource.plural, namespace, selectors) == ("things", "", Selectors())
        now = anyio.current_time()
        self.watch_requests.append(WatchRequest(now, resource_version, timeout_seconds, idle_seconds))
        await anyio.lowlevel.checkpoint()
        script = self.watches.pop(0) if self.watches else [Step.HANG]
        if isinstance(script, Refused):
            raise script.error
        yield cast("AsyncIterator[WatchEvent[T]]", _play(script, idle_seconds))

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        raise NotImplementedError

    async def create(
        self,
        resource: Resource[T],
        body: Json,
        namespace: str = "",
        *,
        strict: bool = False,
        dry_run: bool = False,
    ) -> T:
        raise NotImplementedError

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Json | list[Json],
        namespace: str = "",
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
    ) -> T:
        raise NotImplementedError

    async def update(
        self, resource: Resource[T], name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> T:
        raise NotImplementedError

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = Preconditions(),  # noqa: B008 - the port's own signature
    ) -> T | None:
        raise NotImplementedError


async def _play(script: Sequence[WatchStep], idle_seconds: float) -> AsyncIterator[WatchEvent[Thing]]:
    for step in script:
        match step:
            case WatchEvent():
                yield step
            case BaseException():
                raise step
            case Step.HANG:
                await anyio.sleep_forever()
            case Step.SILENCE:
                await anyio.sleep(idle_seconds)
                raise OutcomeUnknown("no data received")
            case float() | int():
                await anyio.sleep(step)


def describe(old: Thing | None, new: Thing | None) -> str:
    """Write a change as `+a@1`, `~a@2` or `-a@2`."""
    if new is None:
        return f"-{old}"
    if old is None:
        return f"+{new}"
    assert old.metadata.uid == new.metadata.uid
    return f"~{new}"


@dataclass
class Recorder:
    """A handler that records changes as `describe` writes them; additions before its sync as `*a@1`."""

    changes: list[str] = field(default_factory=list)
    registration: Registration[Thing] | None = None

    def add_to(self, informer: SharedInformer[Thing], *, name: str = "", inline: bool = False) -> Self:
        """Add this handler to an informer."""
        self.registration = informer.on_change(self.change, name=name, inline=inline)
        return self

    @property
    def has_synced(self) -> bool:
        return self.registration is not None and self.registration.has_synced

    def change(self, old: Thing | None, new: Thing | None) -> None:
        text = describe(old, new)
        self.changes.append(text if self.has_synced else text.replace("+", "*"))
