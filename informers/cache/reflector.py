"""Keeps a store in step with the API server: list, watch, and what to do when either fails.

The reflector is a state machine. `Listing`, `Watching` and `BackingOff` are values, `step` carries one of
them out and returns the next, and `run` loops it; no other variable decides what happens next:

    Listing --taken in--> Watching --closed in good order--> Watching, from the last version seen
    Listing, Watching --failed--> BackingOff --slept--> Listing or Watching

What is promised: a failed or interrupted list changes nothing; no failure of the server ends the loop; a
list is asked for only when a watch cannot go on without it (410, a server that went back in time, watches
that keep yielding nothing), and then at the last version seen, so that many clients do not read etcd at
once. Every wait is bounded: by `timeoutSeconds` where the server is well, by `IDLE_SECONDS` where it is not.
What is not done: lists from a cache at the start (they travel back in time) and streaming lists.
An exception that is not an `ApiError` is a defect and ends `run`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final, Generic, NoReturn

import anyio
import anyio.lowlevel

from informers.api import (
    Api,
    ObjectKey,
    Resource,
    Selectors,
    T,
    UnreadableObject,
    WatchEvent,
    WatchEventType,
    version_number,
)
from informers.backoff import Backoff
from informers.cache.pending_list import SLICE, PendingList
from informers.cache.reflector_state import (
    BackingOff,
    ListCause,
    Listing,
    Problem,
    ReflectorCounters,
    ReflectorStatistics,
    State,
    Watching,
)
from informers.cache.store import Store
from informers.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooLargeResourceVersion,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

PAGE_LIMIT: Final = 500
"""Objects per page of a consistent list: the chunk size of client-go and kubectl."""

WATCH_SECONDS_MIN: Final = 300
WATCH_SECONDS_MAX: Final = 600
"""The server is asked to close each watch after a random time, so that clients spread over its replicas."""

IDLE_SECONDS: Final = 70.0
"""Silence after which a watch counts as broken: servers send a bookmark about every 60 s."""

SHORT_WATCH_SECONDS: Final = 1.0
"""A watch that closes before this without progress is a failure, or it would be opened in a busy loop."""

FRUITLESS_WATCHES_MAX: Final = 3
"""So many watches in a row that broke without progress, and a list has to show where we stand."""

REFUSED_RETRY_SECONDS: Final = 10.0
"""At least this long between attempts while the resource is absent or forbidden: somebody has to act."""

EVERYTHING: Final = Selectors()

_TELLS_NOTHING_OF_OUR_VERSION: Final = (
    TooManyRequests,
    Unreachable,
    Unauthorized,
    Forbidden,
    ServerError,
    OutcomeUnknown,
)
"""Refusals to open a watch that a list would not cure, and that a list would make worse."""

_CAUSES: Final[Mapping[type[ApiError], ListCause]] = {
    Gone: ListCause.EXPIRED,
    TooLargeResourceVersion: ListCause.EXPIRED,
    NotFound: ListCause.NOT_FOUND,
}

logger = logging.getLogger(__name__)


class Reflector(Generic[T]):
    """Lists and watches one resource into `store`, of which it is the only writer besides write-throughs."""

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        store: Store[T],
        *,
        rng: Random,
        namespace: str = "",
        selectors: Selectors = EVERYTHING,
    ) -> None:
        self._api = api
        self._resource = resource
        self._store = store
        self._rng = rng
        self._namespace = namespace
        self._selectors = selectors
        self._backoff = Backoff(rng)
        self._state: State = Listing()
        self._problem: Problem | None = None
        self._progress = ReflectorCounters()

    def __repr__(self) -> str:
        return f"<Reflector {self} {self._state} problem={self._problem}>"

    def __str__(self) -> str:
        """The resource and the namespace, for messages."""
        return f"{self._resource} in {self._namespace}" if self._namespace else str(self._resource)

    @property
    def problem(self) -> Problem | None:
        """What keeps the store from being up to date; `None` while all is well."""
        return self._problem

    def statistics(self) -> ReflectorStatistics:
        """Counts of this moment."""
        return self._progress.statistics(self._state, self._problem, self._store.resource_version)

    async def run(self) -> NoReturn:
        """List, then watch, until cancelled."""
        state: State = Listing()
        while True:
            state = await self.step(state)

    async def step(self, state: State) -> State:
        """Carry out `state`: one list, one watch from opening to end, or one pause. Returns the next one."""
        self._state = state
        self._progress.stepped()
        match state:
            case Listing():
                return await self._list(state)
            case Watching():
                with self._progress.watching():
                    return await self._watch(state)
            case BackingOff():
                await anyio.sleep(state.seconds)
                return state.then

    # Listing.

    async def _list(self, state: Listing) -> State:
        limit = 0 if state.resource_version else PAGE_LIMIT
        began_seconds = anyio.current_time()
        self._progress.lists_by_cause[state.cause] += 1
        try:
            version, listed = await self._read_list(state.resource_version, limit)
        except ApiError as error:
            if state.resource_version and isinstance(error, Gone | TooLargeResourceVersion):
                # The list at the last version was the cheap question; now the one that always has an answer.
                return Listing(cause=ListCause.RETRY)
            return self._back_off("list", error, then=replace(state, cause=ListCause.RETRY))
        last = self._store.resource_version
        restored = version_number(version) < version_number(last)
        if restored:
            logger.error("%s: the server went back in time, from version %s to %s", self, last, version)
            if state.resource_version:
                return Listing(cause=ListCause.WENT_BACK)
        for _ in self._store.replacing(listed, version, restored=restored):
            await anyio.lowlevel.checkpoint()
        self._progress.listed(began_seconds, listed.items)
        self._recovered()
        return Watching()

    async def _read_list(self, resource_version: str, limit: int) -> tuple[str, PendingList[T]]:
        """Read all pages aside. Returns the version that a watch has to go on from, and the objects."""
        listed = self._store.begin_replacement()
        version = token = ""
        while True:
            try:
                page = await self._api.list_page(
                    self._resource,
                    self._namespace,
                    selectors=self._selectors,
                    resource_version=resource_version,
                    limit=limit,
                    continue_token=token,
                    take=listed.add,
                )
            except Gone:
                if not token or not limit:
                    raise
                # The list outlived etcd's history: pages would expire again, one answer cannot.
                return await self._read_list(resource_version, limit=0)
            self._progress.heard()
            version = version or page.resource_version
            for unreadable in page.unreadable:
                self._note_unreadable(unreadable)
                listed.add_unreadable(unreadable)
            token = page.continue_token
            if not token:
                return version, listed

    # Watching.

    async def _watch(self, state: Watching) -> State:
        began, began_seconds, opened = self._store.resource_version, anyio.current_time(), False
        try:
            async with self._api.watch(
                self._resource,
                self._namespace,
                resource_version=began,
                timeout_seconds=self._rng.randint(WATCH_SECONDS_MIN, WATCH_SECONDS_MAX),
                idle_seconds=IDLE_SECONDS,
                selectors=self._selectors,
            ) as events:
                opened = True
                self._progress.heard()
                self._recovered()
                in_order = await self._follow(events)
        except ApiError as error:
            told = opened or not isinstance(error, _TELLS_NOTHING_OF_OUR_VERSION)
            progress = self._store.resource_version != began
            fruitless = 0 if progress else state.fruitless + told
            if opened and fruitless < FRUITLESS_WATCHES_MAX and self._fell_silent(error):
                return Watching(fruitless)
            return self._watch_failed(error, fruitless)
        if not in_order:
            older = VersionRegressed("a bookmark is older than what was seen")
            return self._back_off("watch", older, then=Listing(cause=ListCause.WENT_BACK))
        if self._store.resource_version != began:
            return Watching()
        if anyio.current_time() - began_seconds < SHORT_WATCH_SECONDS:
            self._progress.short_watches += 1
            return self._watch_failed(ClosedAtOnce("closed at once without an event"), state.fruitless + 1)
        return Watching()

    async def _follow(self, events: AsyncIterator[WatchEvent[T]]) -> bool:
        """Take in events until the server closes. Returns false, at once, if it went back in time."""
        taken = 0
        async for event in events:
            self._progress.events += 1
            self._progress.heard()
            if event.type is WatchEventType.BOOKMARK:
                last = self._store.resource_version
                if version_number(event.resource_version) < version_number(last):
                    return False
            elif event.unreadable is not None and event.type is not WatchEventType.DELETED:
                self._note_unreadable(event.unreadable)
            self._store.apply_event(event)
            taken += 1
            if taken % SLICE == 0:
                await anyio.lowlevel.checkpoint()
        return True

    def _watch_failed(self, error: ApiError, fruitless: int) -> State:
        """What to do after a watch broke, the last of `fruitless` in a row that brought nothing."""
        unwatchable = isinstance(error, Gone | TooLargeResourceVersion | NotFound)
        if unwatchable or fruitless >= FRUITLESS_WATCHES_MAX:
            cause = _CAUSES.get(type(error), ListCause.FRUITLESS)
            return self._back_off("watch", error, then=Listing(self._store.resource_version, cause))
        return self._back_off("watch", error, then=Watching(fruitless))

    def _fell_silent(self, error: ApiError) -> bool:
        """Whether an open watch ended by the idle deadline: that has waited long enough to go on at once."""
        heard = self._progress.last_heard_seconds
        waited = heard is not None and anyio.current_time() - heard >= IDLE_SECONDS / 2
        return waited and isinstance(error, OutcomeUnknown)

    # Failing and recovering.

    def _back_off(self, doing: str, error: ApiError, *, then: Listing | Watching) -> BackingOff:
        self._progress.failures += 1
        at_least = 0.0
        match error:
            case TooManyRequests() | ServerError():
                at_least = error.retry_after_seconds or 0.0
            case Forbidden() | NotFound():
                at_least = REFUSED_RETRY_SECONDS
            case _:
                pass
        seconds = self._backoff.next_seconds(anyio.current_time(), at_least_seconds=at_least)
        problem = Problem(doing, type(error).__name__, self._told(error))
        known = self._problem is not None and (self._problem.doing, self._problem.reason) == (
            problem.doing,
            problem.reason,
        )
        level = logging.DEBUG if known else logging.INFO if isinstance(error, Gone) else logging.WARNING
        logger.log(level, "%s: %s; trying again in %.1f s", self, problem, seconds)
        self._problem = problem
        return BackingOff(seconds, then)

    def _told(self, error: ApiError) -> str:
        """The error's message; "not found" with what it means for a list or a watch."""
        if not isinstance(error, NotFound):
            return error.message
        served = f"{self._resource.plural} of {self._resource.api_version}"
        return f"{error.message}: the server has no {served} (a missing CustomResourceDefinition, or too old)"

    def _recovered(self) -> None:
        if self._problem is not None:
            logger.info("%s: well again after: %s", self, self._problem)
            self._problem = None

    def _note_unreadable(self, unreadable: UnreadableObject) -> None:
        self._progress.decode_errors += 1
        logger.error(
            "%s: %s (version %s) cannot be decoded, its last readable state is kept: %s",
            self,
            ObjectKey.of(unreadable),
            unreadable.resource_version,
            unreadable.error,
        )


class ClosedAtOnce(ApiError):
    """A watch was closed by the server as soon as it was opened."""


class VersionRegressed(ApiError):
    """The server named a version older than one that it had named before."""
