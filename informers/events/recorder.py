"""Kubernetes Events (`events.k8s.io/v1`): recorded at once, sent later, never at the expense of the work.

`record` is synchronous and never fails, waits or blocks. What it records is a series: an event and its
repeats within `finish_seconds`. Not events wait to be sent, but series of which the server knows too little,
so that any number of repeats costs one write per `refresh_seconds`, and what is recorded while the server is
away is told once it is back. A series waits at most once, and at most `pending_max` wait.

Events are best effort: what cannot be sent is dropped and counted (`DropReason`), and a restart begins new
series. So nothing may depend on them, and everything that somebody must act on belongs into the object's
status.

Needs the verbs create and patch on `events.events.k8s.io`, in the namespaces of the objects.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from heapq import heappop, heappush
from itertools import count

import anyio

from informers.api import Api
from informers.backoff import ExponentialBackoff, TokenBucket
from informers.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
)
from informers.events.object import (
    CODE_CHARACTERS_MAX,
    EVENTS,
    EventBody,
    EventType,
    Reference,
    event_body,
    event_name,
    series_body,
)
from informers.events.series import EventSeriesCache, ObjectRateLimits, Series, SeriesKey, object_key

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecorderLimits:
    """Rates and bounds; where client-go has one for events, the default is its own."""

    finish_seconds: float = 6 * 60.0
    """A series without repeats for so long is finished: the next event begins another."""
    refresh_seconds: float = 60.0
    """Least time between two writes of one series: how old the count may be that people see."""
    object_burst: int = 25
    """Events about one object at once; repeats are not counted."""
    object_refill_seconds: float = 5 * 60.0
    """Time after which one more event about it is allowed."""
    writes_per_second: float = 10.0
    writes_burst: int = 10
    pending_max: int = 1000
    """Series that wait to be sent."""
    memory_max: int = 4096
    """Series that are remembered, and objects whose allowance is."""
    tries_max: int = 6
    """How often one write is tried, if the server may take it later."""
    retry_base_seconds: float = 1.0
    retry_limit_seconds: float = 30.0


class DropReason(Enum):
    """Why something was recorded that nobody will read: the label of a counter."""

    OBJECT_LIMIT = "object_limit"
    """Too many events about one object."""
    OVERFLOW = "overflow"
    """Too many waited already."""
    FORBIDDEN = "forbidden"
    """403 or 404: no right to, or the namespace is gone or going."""
    REJECTED = "rejected"
    """409, 422 and the like: this one will never be taken."""
    RETRIES = "retries"
    """The server could not take it, too often."""
    CLOSED = "closed"
    """Recorded after the end, or not sent by then."""
    UNFORESEEN = "unforeseen"
    """An error that nobody thought of; its traceback is in the log."""


@dataclass(frozen=True)
class RecorderStatistics:
    """Counters since the start, and gauges as of now; every `DropReason` is there from the start."""

    recorded_total: int
    created_total: int
    refreshed_total: int
    """Writes of a series that went on."""
    dropped_total: Mapping[DropReason, int]
    pending: int
    series: int
    objects: int


class EventRecorder:
    """Records events about any object, and sends them while `run` runs.

    `reporting_controller` is a qualified name such as `example.com/controller`, `reporting_instance` that of
    the process (its Pod); `now` gives the times that people read.

    Raises:
        ValueError: one of the names is empty, or the instance has more than 128 characters.
    """

    def __init__(
        self,
        api: Api,
        *,
        reporting_controller: str,
        reporting_instance: str,
        now: Callable[[], datetime],
        rng: random.Random,
        limits: RecorderLimits = RecorderLimits(),
    ) -> None:
        if not reporting_controller or not 0 < len(reporting_instance) <= CODE_CHARACTERS_MAX:
            raise ValueError(
                "events need a reporting controller, and an instance of 1 to "
                f"{CODE_CHARACTERS_MAX} characters, got {reporting_controller!r} and {reporting_instance!r}"
            )
        self._api = api
        self._controller = reporting_controller
        self._instance = reporting_instance
        self._now = now
        self._rng = rng
        self._limits = limits
        self._memory = EventSeriesCache(finish_seconds=limits.finish_seconds, series_max=limits.memory_max)
        self._allowances = ObjectRateLimits(
            burst=limits.object_burst,
            refill_seconds=limits.object_refill_seconds,
            objects_max=limits.memory_max,
        )
        self._bucket = TokenBucket(limits.writes_per_second, limits.writes_burst)
        self._retries: ExponentialBackoff[Series] = ExponentialBackoff(
            rng, base_seconds=limits.retry_base_seconds, limit_seconds=limits.retry_limit_seconds
        )
        # (due, sequence, series): each series that is `scheduled` once, but for the one being sent.
        self._due: list[tuple[float, int, Series]] = []
        self._sequence = count()
        self._sending: Series | None = None
        self._wake = anyio.Event()
        self._closing = False
        # Both are there once `run` was called; cancelling the scope ends it.
        self._scope: anyio.CancelScope | None = None
        self._stopped: anyio.Event | None = None
        # A warning was logged, and nothing was accepted since.
        self._warned = False
        self._recorded = 0
        self._created = 0
        self._refreshed = 0
        self._dropped = dict.fromkeys(DropReason, 0)

    def __repr__(self) -> str:
        state = "closed" if self._closing else f"pending={self._pending()} series={len(self._memory)}"
        return f"<EventRecorder {self._controller} {self._instance} {state}>"

    # Recording ---------------------------------------------------------------------------------------

    def record(
        self,
        regarding: Reference,
        *,
        type_: EventType,
        reason: str,
        action: str,
        note: str,
        related: Reference | None = None,
        distinct: str = "",
    ) -> None:
        """Say that something happened to `regarding`. Never raises; to be called in the event loop.

        An event of the same object, type, reason, action, `related` and `distinct` within `finish_seconds`
        is a repeat: it is counted, and its note is not shown. So `distinct` names what makes a note another
        statement, and not only another wording.
        """
        try:
            event = EventBody(regarding, type_, reason, action, note, related, self._now())
            self._recorded += 1
            self._observe(event, SeriesKey.of(event, distinct), anyio.current_time())
        except Exception:
            # Telling must never fail those who act.
            logger.exception("%r: event %s about %s was not recorded", self, reason, regarding)
            self._dropped[DropReason.UNFORESEEN] += 1

    def _observe(self, event: EventBody, key: SeriesKey, now: float) -> None:
        if self._closing:
            self._dropped[DropReason.CLOSED] += 1
            return
        series = self._memory.find(key, now)
        full = self._pending() >= self._limits.pending_max
        if series is not None:
            series.repeat(now, event.time)
            self._memory.keep(series)
            if series.scheduled:
                return
        if full:
            self._dropped[DropReason.OVERFLOW] += 1
            return
        if series is None:
            if not self._allowances.take(object_key(event.regarding), now):
                self._dropped[DropReason.OBJECT_LIMIT] += 1
                return
            series = Series(key, event, now, event.time)
            self._memory.keep(series)
        self._schedule(series, max(now, series.told_at + self._limits.refresh_seconds))

    def _schedule(self, series: Series, due: float) -> None:
        series.scheduled = True
        heappush(self._due, (due, next(self._sequence), series))
        self._wake.set()

    def _pending(self) -> int:
        return len(self._due) + (self._sending is not None)

    # Sending -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send what is recorded, one write at a time, until `aclose` or cancelled. To be awaited once."""
        self._stopped = anyio.Event()
        try:
            with anyio.CancelScope() as self._scope:
                while await self._step():
                    pass
        finally:
            self._stopped.set()

    async def aclose(self, deadline_seconds: float) -> bool:
        """Record no more, try once to send what waits, and end `run`, after the deadline by cancelling it.

        Returns whether everything that waited was sent or refused; the rest is dropped.
        """
        self._closing = True
        self._wake.set()
        if self._stopped is not None and self._scope is not None:
            with anyio.move_on_after(deadline_seconds):
                await self._stopped.wait()
            self._scope.cancel()
            await self._stopped.wait()
        left = self._pending()
        if left:
            logger.warning("%r: %d events were not sent before the end", self, left)
        self._dropped[DropReason.CLOSED] += left
        self._due.clear()
        self._sending = None
        return not left

    def statistics(self) -> RecorderStatistics:
        """Counters since the start, and gauges as of now."""
        return RecorderStatistics(
            recorded_total=self._recorded,
            created_total=self._created,
            refreshed_total=self._refreshed,
            dropped_total=dict(self._dropped),
            pending=self._pending(),
            series=len(self._memory),
            objects=len(self._allowances),
        )

    async def _step(self) -> bool:
        """Send one series; false when closed and nothing is left."""
        if not await self._next_is_due():
            return False
        series = self._sending = heappop(self._due)[-1]
        await anyio.sleep(self._bucket.take(anyio.current_time()))
        told = series.count
        try:
            await self._send(series, told)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is settled as data
            self._settle_error(series, error)
        else:
            self._settle(series, told)
        self._sending = None
        return True

    async def _next_is_due(self) -> bool:
        """Wait until the first in line is due; false if there will be none. Closing, all are due."""
        while not self._closing:
            wait_seconds = self._due[0][0] - anyio.current_time() if self._due else None
            if wait_seconds is not None and wait_seconds <= 0:
                return True
            self._wake = anyio.Event()
            with anyio.move_on_after(wait_seconds):
                await self._wake.wait()
        return bool(self._due)

    async def _send(self, series: Series, told: int) -> None:
        event = series.event
        repeats = series_body(told, series.last) if told > 1 else {}
        if series.on_server:
            await self._api.patch(EVENTS, series.name, repeats, event.namespace)
            self._refreshed += 1
            return
        series.name = series.name or event_name(event, self._rng.getrandbits(32))
        body = event_body(event, series.name, controller=self._controller, instance=self._instance)
        await self._api.create(EVENTS, body | repeats, event.namespace)
        self._created += 1

    def _settle(self, series: Series, told: int) -> None:
        """The server knows of `told` events of this series: the next write is due if there are more."""
        self._warned = False
        series.on_server = True
        self._end(series)
        if series.count > told:
            self._schedule(series, series.told_at + self._limits.refresh_seconds)

    def _settle_error(self, series: Series, error: Exception) -> None:
        match error:
            case NotFound() if series.on_server:
                # It outlived its time on the server, or somebody deleted it: the series goes on in another.
                series.on_server, series.unanswered, series.name = False, False, ""
                self._schedule(series, anyio.current_time())
            case AlreadyExists() if series.unanswered:
                # It was created by an attempt whose answer was lost, with at least one event.
                self._created += 1
                self._settle(series, 1)
            case Forbidden() | NotFound():
                self._drop(series, DropReason.FORBIDDEN, self._warning_once(), error)
            case ApiError() if error.retryable and not isinstance(error, Conflict):
                self._retry(series, error)
            case ApiError():
                self._drop(series, DropReason.REJECTED, logging.DEBUG, error)
            case _:
                logger.error("%r: sending an event failed unforeseen", self, exc_info=error)
                self._drop(series, DropReason.UNFORESEEN, logging.DEBUG, error)

    def _retry(self, series: Series, error: ApiError) -> None:
        series.unanswered = not series.on_server
        delay_seconds = self._retries.fail(series)
        if self._closing or self._retries.failures(series) >= self._limits.tries_max:
            self._drop(series, DropReason.RETRIES, self._warning_once(), error)
            return
        if isinstance(error, (TooManyRequests, ServerError)):
            delay_seconds = max(delay_seconds, error.retry_after_seconds or 0.0)
        logger.debug("%r: %s again in %.3f s: %s", self, series.name, delay_seconds, error)
        self._schedule(series, anyio.current_time() + delay_seconds)

    def _drop(self, series: Series, why: DropReason, level: int, error: Exception) -> None:
        """Give up this write. A later repeat may tell of the whole series."""
        self._dropped[why] += 1
        logger.log(level, "%r: event %s was dropped: %s: %s", self, series.name, type(error).__name__, error)
        if not series.on_server and not series.unanswered:
            series.name = ""
        self._end(series)

    def _warning_once(self) -> int:
        """The level for a trouble that all writes share: worth a warning until one is accepted again."""
        level = logging.DEBUG if self._warned else logging.WARNING
        self._warned = True
        return level

    def _end(self, series: Series) -> None:
        self._retries.forget(series)
        series.told_at = anyio.current_time()
        series.scheduled = False
