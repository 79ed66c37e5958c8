"""Keeps a store in sync with the API server by list and watch.

The reflector is a state machine. `Listing`, `Watching` and `BackingOff` are values: `step` performs one and
returns the next, and `run` loops. No other variable decides the next step:

    Listing --applied--> Watching --closed cleanly--> Watching, from the last version
    Listing, Watching --failed--> BackingOff --slept--> Listing or Watching

Guarantees: a failed or interrupted list changes nothing, and no server failure ends the loop. A list is
requested only if a watch cannot continue without it (410, a regressed server, watches without progress). It
is then requested at the last version, so that many clients do not read etcd at once. Every wait is bounded,
by `timeoutSeconds` on a healthy server and by `IDLE_SECONDS` otherwise.

Not done here: initial lists from a cache (they may go back in time), and streaming lists. An exception other
than `ApiError` is a defect and ends `run`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final, Generic, NoReturn

import anyio
import anyio.lowlevel

from informers import errors
from informers.api import (
    EVERYTHING,
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
from informers.errors import ApiError, Forbidden, Gone, NotFound, OutcomeUnknown, TooLargeResourceVersion

PAGE_LIMIT: Final = 500
"""Objects per page of a consistent list: the chunk size of client-go and kubectl."""

WATCH_SECONDS_MIN: Final = 300
WATCH_SECONDS_MAX: Final = 600
"""The server is asked to close each watch after a random time, so that clients spread over its replicas."""

IDLE_SECONDS: Final = 70.0
"""Silence after which a watch counts as broken: servers send a bookmark about every 60 s."""

SHORT_WATCH_SECONDS: Final = 1.0
"""A watch that closes before this without progress counts as failed, to prevent a busy loop."""

FRUITLESS_WATCHES_MAX: Final = 3
"""Broken watches in a row without progress after which a list determines the current version."""

REFUSED_RETRY_SECONDS: Final = 10.0
"""Minimum delay while the resource is absent or forbidden, since that needs a change by an administrator."""

_UNRELATED_TO_VERSION: Final = (
    errors.TooManyRequests,
    errors.Unreachable,
    errors.Unauthorized,
    errors.Forbidden,
    errors.ServerError,
    errors.OutcomeUnknown,
)
"""Failures to open a watch that a list would not repair, and that a list would aggravate."""

_CAUSES: Final[Mapping[type[ApiError], ListCause]] = {
    Gone: ListCause.EXPIRED,
    TooLargeResourceVersion: ListCause.EXPIRED,
    NotFound: ListCause.NOT_FOUND,
}

logger = logging.getLogger(__name__)


class Reflector(Generic[T]):
    """Lists and watches one resource into `store`; besides responses to writes, its only writer."""

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
        self._counters = ReflectorCounters()

    def __repr__(self) -> str:
        return f"<Reflector {self} {self._state} problem={self._problem}>"

    def __str__(self) -> str:
        """Resource and namespace, for messages."""
        return f"{self._resource} in {self._namespace}" if self._namespace else str(self._resource)

    @property
    def problem(self) -> Problem | None:
        """What keeps the store from being up to date, if anything."""
        return self._problem

    def statistics(self) -> ReflectorStatistics:
        """Return the current counts."""
        return self._counters.statistics(self._state, self._problem, self._store.resource_version)

    async def run(self) -> NoReturn:
        """List, then watch, until cancelled."""
        state: State = Listing()
        while True:
            state = await self.step(state)

    async def step(self, state: State) -> State:
        """Perform `state`, one list, one whole watch or one delay, and return the next state."""
        self._state = state
        self._counters.observe_step()
        match state:
            case Listing():
                return await self._list(state)
            case Watching():
                with self._counters.watch():
                    return await self._watch(state)
            case BackingOff():
                await anyio.sleep(state.seconds)
                return state.then

    async def _list(self, state: Listing) -> State:
        limit = 0 if state.resource_version else PAGE_LIMIT
        began_at = anyio.current_time()
        self._counters.lists_by_cause[state.cause] += 1
        try:
            version, pending = await self._read_list(state.resource_version, limit)
        except ApiError as error:
            if state.resource_version and isinstance(error, Gone | TooLargeResourceVersion):
                # The list at the last version was the cheap request; a consistent one always has a result.
                return Listing(cause=ListCause.RETRY)
            return self._back_off("list", error, then=replace(state, cause=ListCause.RETRY))
        last = self._store.resource_version
        restored = version_number(version) < version_number(last)
        if restored:
            context = {"resource": str(self), "last_version": last, "version": version}
            logger.error("Server returned an older resourceVersion", extra=context)
            if state.resource_version:
                return Listing(cause=ListCause.REGRESSED)
        for _ in self._store.replace_in_slices(pending, version, restored=restored):
            await anyio.lowlevel.checkpoint()
        self._counters.observe_list(began_at, pending.items)
        self._recovered()
        return Watching()

    async def _read_list(self, resource_version: str, limit: int) -> tuple[str, PendingList[T]]:
        """Read all pages. Returns the version for the watch to start from, and the unapplied objects."""
        pending = self._store.begin_list()
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
                    on_object=pending.add,
                )
            except Gone:
                if not token or not limit:
                    raise
                # Paging took longer than etcd's history. Further pages would expire too; one response cannot.
                return await self._read_list(resource_version, limit=0)
            self._counters.observe_response()
            version = version or page.resource_version
            for unreadable in page.unreadable:
                self._report_unreadable(unreadable)
                pending.add_unreadable(unreadable)
            token = page.continue_token
            if not token:
                return version, pending

    async def _watch(self, state: Watching) -> State:
        first, began_at, opened = self._store.resource_version, anyio.current_time(), False
        try:
            async with self._api.watch(
                self._resource,
                self._namespace,
                resource_version=first,
                timeout_seconds=self._rng.randint(WATCH_SECONDS_MIN, WATCH_SECONDS_MAX),
                idle_seconds=IDLE_SECONDS,
                selectors=self._selectors,
            ) as events:
                opened = True
                self._counters.observe_response()
                self._recovered()
                regressed = not await self._apply_events(events)
        except ApiError as error:
            counts = opened or not isinstance(error, _UNRELATED_TO_VERSION)
            progress = self._store.resource_version != first
            fruitless = 0 if progress else state.fruitless + counts
            if opened and fruitless < FRUITLESS_WATCHES_MAX and self._timed_out_idle(error):
                return Watching(fruitless)
            return self._after_failed_watch(error, fruitless)
        if regressed:
            older = VersionRegressed("a bookmark is older than the last version")
            return self._back_off("watch", older, then=Listing(cause=ListCause.REGRESSED))
        if self._store.resource_version != first:
            return Watching()
        if anyio.current_time() - began_at < SHORT_WATCH_SECONDS:
            self._counters.short_watches += 1
            closed = ClosedAtOnce("the server closed the watch at once without an event")
            return self._after_failed_watch(closed, state.fruitless + 1)
        return Watching()

    async def _apply_events(self, events: AsyncIterator[WatchEvent[T]]) -> bool:
        """Apply events until the server closes the watch. Returns false at once if the version regressed."""
        applied = 0
        async for event in events:
            self._counters.events += 1
            self._counters.observe_response()
            if event.type is WatchEventType.BOOKMARK:
                last = self._store.resource_version
                if version_number(event.resource_version) < version_number(last):
                    return False
            elif event.unreadable is not None and event.type is not WatchEventType.DELETED:
                self._report_unreadable(event.unreadable)
            self._store.apply_event(event)
            applied += 1
            if applied % SLICE == 0:
                await anyio.lowlevel.checkpoint()
        return True

    def _after_failed_watch(self, error: ApiError, fruitless: int) -> State:
        """Return the state after a broken watch, the `fruitless`-th in a row without progress."""
        unwatchable = isinstance(error, Gone | TooLargeResourceVersion | NotFound)
        if unwatchable or fruitless >= FRUITLESS_WATCHES_MAX:
            cause = _CAUSES.get(type(error), ListCause.FRUITLESS)
            return self._back_off("watch", error, then=Listing(self._store.resource_version, cause))
        return self._back_off("watch", error, then=Watching(fruitless))

    def _timed_out_idle(self, error: ApiError) -> bool:
        """Whether the idle timeout ended an open watch. The next attempt then needs no delay."""
        event_at = self._counters.last_event_at
        waited = event_at is not None and anyio.current_time() - event_at >= IDLE_SECONDS / 2
        return waited and isinstance(error, OutcomeUnknown)

    def _back_off(self, operation: str, error: ApiError, *, then: Listing | Watching) -> BackingOff:
        self._counters.failures += 1
        refused = isinstance(error, Forbidden | NotFound)
        at_least = REFUSED_RETRY_SECONDS if refused else error.retry_after_seconds or 0.0
        seconds = self._backoff.next_seconds(anyio.current_time(), at_least_seconds=at_least)
        problem = Problem(operation, type(error).__name__, self._message_of(error))
        known = self._problem is not None and (self._problem.operation, self._problem.reason) == (
            problem.operation,
            problem.reason,
        )
        level = logging.DEBUG if known else logging.INFO if isinstance(error, Gone) else logging.WARNING
        context = {"resource": str(self), "err": str(problem), "retry_after_seconds": round(seconds, 1)}
        logger.log(level, "Failed to list or watch", extra=context)
        self._problem = problem
        return BackingOff(seconds, then)

    def _message_of(self, error: ApiError) -> str:
        """Return the error's message, with an explanation of "not found" for a list or a watch."""
        if not isinstance(error, NotFound):
            return error.message
        served = f"{self._resource.plural} of {self._resource.api_version}"
        return f"{error.message}: the server has no {served} (a missing CustomResourceDefinition, or too old)"

    def _recovered(self) -> None:
        if self._problem is not None:
            logger.info("Recovered watch", extra={"resource": str(self), "err": str(self._problem)})
            self._problem = None

    def _report_unreadable(self, unreadable: UnreadableObject) -> None:
        """Count an unreadable version, and log it unless the previous one had the same error."""
        self._counters.decode_errors += 1
        key = ObjectKey.of(unreadable)
        marked = self._store.unreadable.get(key)
        if marked is not None and (marked.uid, marked.error) == (unreadable.uid, unreadable.error):
            return
        context = {
            "resource": str(self),
            "key": str(key),
            "version": unreadable.resource_version,
            "err": unreadable.error,
        }
        logger.error("Failed to decode object, kept its last readable version", extra=context)


class ClosedAtOnce(ApiError):
    """The server closed a watch as soon as it was opened."""


class VersionRegressed(ApiError):
    """The server returned an older version than before."""
