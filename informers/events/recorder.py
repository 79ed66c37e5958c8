"""Records Kubernetes Events (`events.k8s.io/v1`) without delaying the caller, and sends them later.

`record` is synchronous and never fails, waits or blocks. It records a series: an event and its repeats within
`finish_seconds`. The queue holds series whose state on the server is outdated, not single events. So any
number of repeats costs one write per `refresh_seconds`, and events recorded while the server is unavailable
are sent once it is back. A series is queued at most once, and at most `pending_max` series are queued.

Events are best effort: events that cannot be sent are dropped and counted (`DropReason`), and a restart
begins new series. Nothing may depend on them; whatever a user must act on belongs in the object's status.

Needs the verbs create and patch on `events.events.k8s.io` in the namespaces of the objects.
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
from informers.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
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
    """Rates and bounds. The defaults are those of client-go, where it has any."""

    finish_seconds: float = 6 * 60.0
    """A series without repeats for this long is finished; the next event begins another."""
    refresh_seconds: float = 60.0
    """Minimum time between two writes of one series, and so the maximum age of the visible count."""
    object_burst: int = 25
    """Burst of events about one object; repeats do not count."""
    object_refill_seconds: float = 5 * 60.0
    """Time after which one more event about an object is allowed."""
    writes_per_second: float = 10.0
    writes_burst: int = 10
    pending_max: int = 1000
    memory_max: int = 4096
    """Series in memory, and objects with a rate limit."""
    tries_max: int = 6
    """Attempts for one write that may succeed later."""
    retry_base_seconds: float = 1.0
    retry_limit_seconds: float = 30.0


class DropReason(Enum):
    """Why a recorded event was not sent: the label of a counter."""

    OBJECT_LIMIT = "object_limit"
    OVERFLOW = "overflow"
    FORBIDDEN = "forbidden"
    """403 or 404: not permitted, or the namespace is deleted or terminating."""
    REJECTED = "rejected"
    """409, 422 and similar: the server will never accept this event."""
    RETRIES = "retries"
    CLOSED = "closed"
    """Recorded after closing, or not sent by then."""
    UNFORESEEN = "unforeseen"
    """An unexpected error; its traceback is in the log."""


@dataclass(frozen=True)
class RecorderStatistics:
    """Counters since the start and current gauges; every `DropReason` is counted from 0."""

    recorded_total: int
    created_total: int
    refreshed_total: int
    dropped_total: Mapping[DropReason, int]
    pending: int


class EventRecorder:
    """Records events about any object, and sends them while `run` runs.

    `reporting_controller` is a qualified name such as `example.com/controller`, `reporting_instance` the name
    of the process (its Pod), at most 128 characters. `now` provides the times shown to people.
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
        self._series = EventSeriesCache(finish_seconds=limits.finish_seconds, series_max=limits.memory_max)
        self._rate_limits = ObjectRateLimits(
            burst=limits.object_burst,
            refill_seconds=limits.object_refill_seconds,
            objects_max=limits.memory_max,
        )
        self._bucket = TokenBucket(limits.writes_per_second, limits.writes_burst)
        self._retries: ExponentialBackoff[Series] = ExponentialBackoff(
            rng, base_seconds=limits.retry_base_seconds, limit_seconds=limits.retry_limit_seconds
        )
        # (due, sequence, series): each `scheduled` series once, except the one being sent.
        self._due: list[tuple[float, int, Series]] = []
        self._sequence = count()
        self._sending: Series | None = None
        self._changed = anyio.Event()
        self._closing = False
        # Both are set by `run`; cancelling the scope ends it.
        self._scope: anyio.CancelScope | None = None
        self._stopped: anyio.Event | None = None
        # A warning was logged and no write has succeeded since.
        self._warned = False
        self._recorded = 0
        self._created = 0
        self._refreshed = 0
        self._dropped = dict.fromkeys(DropReason, 0)

    def __repr__(self) -> str:
        state = "closed" if self._closing else f"pending={self._pending()} series={len(self._series)}"
        return f"<EventRecorder {self._controller} {self._instance} {state}>"

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
        """Record an event about `regarding`. Never raises; call it on the event loop.

        An event with the same object, type, reason, action, `related` and `distinct` within `finish_seconds`
        is a repeat: it is counted, and its note is not shown. So `distinct` must identify what makes two
        notes differ in substance, not just in wording.
        """
        try:
            event = EventBody(regarding, type_, reason, action, note, related, self._now())
            self._recorded += 1
            self._observe(event, SeriesKey.of(event, distinct), anyio.current_time())
        except Exception:
            # An event must never make the caller fail.
            logger.exception("Failed to record event", extra={"reason": reason, "regarding": regarding})
            self._dropped[DropReason.UNFORESEEN] += 1

    def _observe(self, event: EventBody, key: SeriesKey, now: float) -> None:
        if self._closing:
            self._dropped[DropReason.CLOSED] += 1
            return
        series = self._series.find(key, now)
        full = self._pending() >= self._limits.pending_max
        if series is not None:
            series.repeat(now, event.time)
            self._series.keep(series)
            if series.scheduled:
                return
        if full:
            self._dropped[DropReason.OVERFLOW] += 1
            return
        if series is None:
            if not self._rate_limits.take(object_key(event.regarding), now):
                self._dropped[DropReason.OBJECT_LIMIT] += 1
                return
            series = Series(key, event, now, event.time)
            self._series.keep(series)
        self._schedule(series, max(now, series.written_at + self._limits.refresh_seconds))

    def _schedule(self, series: Series, due: float) -> None:
        series.scheduled = True
        heappush(self._due, (due, next(self._sequence), series))
        self._changed.set()

    def _pending(self) -> int:
        return len(self._due) + (self._sending is not None)

    async def run(self) -> None:
        """Send recorded events, one write at a time, until `aclose` or cancellation. May be awaited once."""
        self._stopped = anyio.Event()
        try:
            with anyio.CancelScope() as self._scope:
                while await self._step():
                    pass
        finally:
            self._stopped.set()

    async def aclose(self, deadline_seconds: float) -> bool:
        """Stop recording, try once to send each pending series, and end `run` no later than the deadline.

        Returns true if every pending series was sent or rejected; the rest is dropped.
        """
        self._closing = True
        self._changed.set()
        if self._stopped is not None and self._scope is not None:
            with anyio.move_on_after(deadline_seconds):
                await self._stopped.wait()
            self._scope.cancel()
            await self._stopped.wait()
        unsent = self._pending()
        if unsent:
            logger.warning("Dropped unsent events", extra={"series": unsent})
        self._dropped[DropReason.CLOSED] += unsent
        self._due.clear()
        self._sending = None
        return not unsent

    def statistics(self) -> RecorderStatistics:
        """Return counters since the start and current gauges."""
        return RecorderStatistics(
            recorded_total=self._recorded,
            created_total=self._created,
            refreshed_total=self._refreshed,
            dropped_total=dict(self._dropped),
            pending=self._pending(),
        )

    async def _step(self) -> bool:
        """Send one series; false if closed and none is left."""
        if not await self._wait_until_due():
            return False
        series = self._sending = heappop(self._due)[-1]
        await anyio.sleep(self._bucket.take(anyio.current_time()))
        sent = series.count
        try:
            await self._send(series, sent)
        except Exception as error:  # noqa: BLE001 - handled by `_settle_error`
            self._settle_error(series, error)
        else:
            self._settle(series, sent)
        self._sending = None
        return True

    async def _wait_until_due(self) -> bool:
        """Wait until a series is due; false if none will be. While closing, all are due."""
        while not self._closing:
            wait_seconds = self._due[0][0] - anyio.current_time() if self._due else None
            if wait_seconds is not None and wait_seconds <= 0:
                return True
            self._changed = anyio.Event()
            with anyio.move_on_after(wait_seconds):
                await self._changed.wait()
        return bool(self._due)

    async def _send(self, series: Series, sent: int) -> None:
        event = series.event
        repeats = series_body(sent, series.last) if sent > 1 else {}
        if series.on_server:
            await self._api.patch(EVENTS, series.name, repeats, event.namespace)
            self._refreshed += 1
            return
        series.name = series.name or event_name(event, self._rng.getrandbits(32))
        body = event_body(event, series.name, controller=self._controller, instance=self._instance)
        await self._api.create(EVENTS, body | repeats, event.namespace)
        self._created += 1

    def _settle(self, series: Series, sent: int) -> None:
        """Record that the server has `sent` events of this series, and schedule the others."""
        self._warned = False
        series.on_server = True
        self._finish(series)
        if series.count > sent:
            self._schedule(series, series.written_at + self._limits.refresh_seconds)

    def _settle_error(self, series: Series, error: Exception) -> None:
        match error:
            case NotFound() if series.on_server:
                # It expired on the server, or was deleted: the series continues in a new Event.
                series.on_server, series.may_exist, series.name = False, False, ""
                self._schedule(series, anyio.current_time())
            case AlreadyExists() if series.may_exist:
                # A create whose response was lost took effect, with at least one event.
                self._created += 1
                self._settle(series, 1)
            case Forbidden() | NotFound():
                self._drop(series, DropReason.FORBIDDEN, self._warning_once(), error)
            case ApiError() if error.retryable and not isinstance(error, Conflict):
                self._retry(series, error)
            case ApiError():
                self._drop(series, DropReason.REJECTED, logging.DEBUG, error)
            case _:
                logger.error("Failed unexpectedly to send event", exc_info=error)
                self._drop(series, DropReason.UNFORESEEN, logging.DEBUG, error)

    def _retry(self, series: Series, error: ApiError) -> None:
        series.may_exist = not series.on_server
        delay_seconds = max(self._retries.fail(series), error.retry_after_seconds or 0.0)
        if self._closing or self._retries.failures(series) >= self._limits.tries_max:
            self._drop(series, DropReason.RETRIES, self._warning_once(), error)
            return
        context = {
            "event_name": series.name,
            "err": str(error),
            "retry_after_seconds": round(delay_seconds, 3),
        }
        logger.debug("Failed to send event", extra=context)
        self._schedule(series, anyio.current_time() + delay_seconds)

    def _drop(self, series: Series, reason: DropReason, level: int, error: Exception) -> None:
        """Give up this write. A later repeat may still send the whole series."""
        self._dropped[reason] += 1
        context = {
            "event_name": series.name,
            "cause": reason.value,
            "err": f"{type(error).__name__}: {error}",
        }
        logger.log(level, "Dropped event", extra=context)
        if not series.on_server and not series.may_exist:
            series.name = ""
        self._finish(series)

    def _warning_once(self) -> int:
        """Return the level for an error common to all writes: one warning until a write succeeds."""
        level = logging.DEBUG if self._warned else logging.WARNING
        self._warned = True
        return level

    def _finish(self, series: Series) -> None:
        self._retries.forget(series)
        series.written_at = anyio.current_time()
        series.scheduled = False
