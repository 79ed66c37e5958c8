"""Leader election on a Lease: at most one process works, judged by each one's own monotonic clock.

The argument: a leader counts from the moment at which it *sent* its last renewal that succeeded, and stops
its work `renew_deadline` after that. Others count from the moment at which they *saw* the record change, so
later, and wait `lease` seconds, so longer. A claim is a write on the version that was read: of two claims one
fails. Clocks may be wrong by any amount; only their rates must agree to within lease / renew deadline. A
cancelled or unanswered request may still take effect: it is then found in the record.

The work is stopped by cancellation, and has what is left of the lease to clean up. Nothing can stop work that
ignores this, or call back a request that was sent. So this saves work; it does not fence: every write needs
its own precondition, and `may_write` asked before it.

Give the elector an `Api` with connections of its own, so that no other traffic can starve the renewals. It
needs the verbs get, create and patch on its lease.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import anyio

from informers.api import Api
from informers.errors import ApiError, Conflict, NotFound
from informers.leader.lease import LEASES, Lease, claim_patch, new_lease, release_patch

logger = logging.getLogger(__name__)

# Candidates try again after one retry period and up to this part of it more: they must not step together.
ACQUIRE_JITTER = 0.2
# A request gets half the time in which a renewal must succeed: one that hangs leaves room for a second.
ATTEMPT_SECONDS_MIN = 1.0


class LeadershipLost(Exception):
    """Raised by `LeaderElector.run` after the work was stopped because the lease could not be kept."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Times of the election in seconds; the defaults are those of client-go's users."""

    lease_seconds: float = 15.0
    """How long others wait after the last sign of life; written to the lease in whole seconds, rounded up."""
    renew_deadline_seconds: float = 10.0
    """How long the leader works on after the last renewal that succeeded."""
    retry_period_seconds: float = 2.0
    """Time between two attempts to renew or to acquire."""

    def validate(self) -> None:
        """Refuse times with which a leader could outlive its lease, or not renew it in time.

        Raises:
            ValueError: with one message that names the rule and the values.
        """
        lease, renew, retry = self.lease_seconds, self.renew_deadline_seconds, self.retry_period_seconds
        if not (math.inf > lease > renew > (1 + ACQUIRE_JITTER) * retry > 0):
            rule = f"lease duration > renew deadline > {1 + ACQUIRE_JITTER:g} x retry period > 0"
            raise ValueError(f"leader election needs {rule}, got {lease:g} s, {renew:g} s and {retry:g} s")


@dataclass(frozen=True)
class ElectionStatistics:
    """The state of one elector; `leading` is `leader_election_master_status`."""

    identity: str
    holder: str
    """Holder of the lease as last seen, empty if free or never seen."""
    leading: bool
    terms_total: int
    """Times that this process became the leader."""
    slowpath_total: int
    """Renewals that had to read the lease again."""
    failed_attempts_total: int
    seconds_since_renewal: float
    """Infinite before the first."""


class _Attempt(Enum):
    OURS = "ours"
    NOT_OURS = "not ours"
    FAILED = "failed"


class LeaderElector:
    """Runs work while it holds the lease `namespace/name`.

    Its identity is `host` and a suffix from `unique_suffix` (a UUID in production): two processes on one host
    are two. `wall_clock` gives the times that are written, and decides nothing.
    """

    def __init__(
        self,
        api: Api,
        *,
        name: str,
        namespace: str,
        host: str,
        unique_suffix: Callable[[], str],
        wall_clock: Callable[[], datetime],
        rng: random.Random,
        settings: ElectionSettings = ElectionSettings(),
    ) -> None:
        settings.validate()
        self.identity = f"{host}_{unique_suffix()}"
        self._api = api
        self._name = name
        self._namespace = namespace
        self._wall_clock = wall_clock
        self._rng = rng
        self._settings = settings
        self._lease_seconds = math.ceil(settings.lease_seconds)
        self._attempt_seconds = max(ATTEMPT_SECONDS_MIN, settings.renew_deadline_seconds / 2)

        # The lease as last read or written, and the monotonic time at which its record was seen to change.
        self._observed: Lease | None = None
        self._observed_at = -math.inf
        # Monotonic time at which our last claim that succeeded was sent.
        self._renewed_at = -math.inf
        # A claim was sent, and nothing seen since then says that the lease is someone else's.
        self._may_hold = False
        # From winning the lease until the work has ended; `_lost` says why, once it had to be stopped.
        self._leading = False
        self._lost: str | None = None

        self._terms = 0
        self._slowpath = 0
        self._failed_attempts = 0
        self._complaint = ""  # What the last attempt failed of: said again only when it changes.

    def __repr__(self) -> str:
        role = "leader" if self._leading else "standby"
        return f"<LeaderElector {self._namespace}/{self._name} {self.identity} {role}>"

    @property
    def leading(self) -> bool:
        """The lease was won and the work has not ended."""
        return self._leading

    def may_write(self) -> bool:
        """Leading, and the last renewal is recent enough. To be asked before each guarded write."""
        return self._leading and anyio.current_time() < self._renew_by

    def healthy(self, tolerance_seconds: float) -> bool:
        """False if the work goes on although the lease ran out more than `tolerance_seconds` ago.

        For a liveness probe: the process then ignores its loss, or its event loop is stuck.
        """
        expired_at = self._renewed_at + self._settings.lease_seconds
        return not self._leading or anyio.current_time() <= expired_at + tolerance_seconds

    def statistics(self) -> ElectionStatistics:
        """Counters since the start, and gauges as of now."""
        return ElectionStatistics(
            identity=self.identity,
            holder=self._holder,
            leading=self._leading,
            terms_total=self._terms,
            slowpath_total=self._slowpath,
            failed_attempts_total=self._failed_attempts,
            seconds_since_renewal=anyio.current_time() - self._renewed_at,
        )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `lead` while it is kept, and release it once `lead` has ended.

        If `lead` returns or raises, so does this. Cancelling this cancels `lead`, and renewals go on until it
        has ended. A standby that is cancelled never calls it.

        Raises:
            LeadershipLost: the lease could not be kept; `lead` was cancelled and has ended.
        """
        self._lost = None
        try:
            await self._acquire()
            await self._lead(lead)
        finally:
            if self._may_hold and self._lost is None:
                with anyio.CancelScope(shield=True):
                    await self._release()

    # Acquiring and keeping ---------------------------------------------------------------------------

    @property
    def _holder(self) -> str:
        return self._observed.holder if self._observed is not None else ""

    @property
    def _renew_by(self) -> float:
        return self._renewed_at + self._settings.renew_deadline_seconds

    async def _acquire(self) -> None:
        # An answer may come so late that the time in which it lets us work is over.
        while await self._attempt(self._claim) is not _Attempt.OURS or anyio.current_time() >= self._renew_by:
            jitter = 1 + ACQUIRE_JITTER * self._rng.random()
            await anyio.sleep(self._settings.retry_period_seconds * jitter)

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        self._leading = True
        self._terms += 1
        logger.info("%s: became the leader of %s/%s", self.identity, self._namespace, self._name)
        error: Exception | None = None
        async with anyio.create_task_group() as tasks:
            # Shielded: when we are cancelled, renewals go on until the work has ended.
            renewals, work = anyio.CancelScope(shield=True), anyio.CancelScope()
            tasks.start_soon(self._keep_renewing, renewals, work)
            try:
                with work:
                    await lead()
            except Exception as raised:  # noqa: BLE001 - raised below, where no task group wraps it
                error = raised
            finally:
                self._leading = False
                renewals.cancel()
        if self._lost is not None:
            logger.error("%s: lost %s/%s: %s", self.identity, self._namespace, self._name, self._lost)
            raise LeadershipLost(self._lost) from error
        if error is not None:
            raise error

    async def _keep_renewing(self, renewals: anyio.CancelScope, work: anyio.CancelScope) -> None:
        with renewals:
            try:
                while self._lost is None:
                    self._lost = await self._renew()
            finally:
                if not renewals.cancel_called:
                    self._lost = self._lost or "the renewals ended unexpectedly"
                    work.cancel()

    async def _renew(self) -> str | None:
        """One retry period and one attempt, cut short at the renew deadline; says why leadership is lost."""
        attempt = _Attempt.FAILED
        with anyio.CancelScope(deadline=self._renew_by):
            await anyio.sleep(self._settings.retry_period_seconds)
            # After a pause of the whole process it is too late to ask, even where the lease is still ours.
            if anyio.current_time() < self._renew_by:
                attempt = await self._attempt(self._claim)
        if attempt is _Attempt.NOT_OURS:
            return f"the lease is held by {self._holder or 'nobody'}"
        if anyio.current_time() >= self._renew_by:
            return f"no renewal succeeded for {self._settings.renew_deadline_seconds:g} s"
        return None

    # One attempt -------------------------------------------------------------------------------------

    async def _attempt(self, request: Callable[[], Awaitable[_Attempt]]) -> _Attempt:
        """Make one `request` in bounded time. Whatever goes wrong is a failed attempt."""
        try:
            with anyio.fail_after(self._attempt_seconds):
                answer = await request()
        except (ApiError, TimeoutError) as error:
            complaint = f"{type(error).__name__}: {error}"
            level = logging.DEBUG if complaint == self._complaint else logging.WARNING
            logger.log(level, "%s: attempt failed: %s", self.identity, complaint)
            self._complaint = complaint
        except Exception:
            logger.exception("%s: attempt failed in an unforeseen way", self.identity)
        else:
            if self._complaint:
                logger.info("%s: well again after: %s", self.identity, self._complaint)
            self._complaint = ""
            return answer
        self._failed_attempts += 1
        return _Attempt.FAILED

    async def _claim(self) -> _Attempt:
        if self._leading and self._observed is not None:
            try:
                return await self._write(self._observed)
            except (Conflict, NotFound):
                self._slowpath += 1
        try:
            lease = await self._api.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        self._observe(lease)
        if lease.holder == self.identity:
            return await self._write(lease)
        self._may_hold = False
        # A leader whose name is gone has lost: others may have worked since, even if nobody holds it now.
        if self._leading or self._held_by_another():
            return _Attempt.NOT_OURS
        return await self._write(lease)

    async def _write(self, lease: Lease) -> _Attempt:
        sent_at = anyio.current_time()
        body = claim_patch(lease, self.identity, self._lease_seconds, self._wall_clock())
        self._may_hold = True
        self._observe(await self._api.patch(LEASES, self._name, body, self._namespace))
        self._renewed_at = sent_at
        return _Attempt.OURS

    async def _create(self) -> _Attempt:
        """Make the lease where there is none; one deleted by hand does not end its holder's time."""
        if not self._leading and self._held_by_another():
            return _Attempt.NOT_OURS
        sent_at = anyio.current_time()
        body = new_lease(self._name, self.identity, self._lease_seconds, self._wall_clock())
        self._may_hold = True
        self._observe(await self._api.create(LEASES, body, self._namespace))
        self._renewed_at = sent_at
        return _Attempt.OURS

    def _held_by_another(self) -> bool:
        """Whether the record last seen has another holder whose time is not over."""
        if self._observed is None or self._holder in {"", self.identity}:
            return False
        lease_seconds = self._observed.spec.lease_duration_seconds or self._lease_seconds
        return anyio.current_time() < self._observed_at + lease_seconds

    def _observe(self, lease: Lease) -> None:
        """Note the record. Only a change of it counts as a sign of life, not one of labels."""
        known = self._observed
        if known is None or (known.metadata.uid, known.spec) != (lease.metadata.uid, lease.spec):
            self._observed_at = anyio.current_time()
        if known is None or known.holder != lease.holder:
            holder = "this process" if lease.holder == self.identity else lease.holder or "nobody"
            logger.info("%s: %s/%s is held by %s", self.identity, self._namespace, self._name, holder)
        self._observed = lease

    # Giving up ---------------------------------------------------------------------------------------

    async def _release(self) -> None:
        """Free the lease if it is still ours, so that a successor need not wait for it to run out."""
        with anyio.move_on_after(self._settings.renew_deadline_seconds):
            while self._may_hold:
                if await self._attempt(self._give_up) is _Attempt.FAILED:
                    await anyio.sleep(self._settings.retry_period_seconds)
        if self._may_hold:
            logger.warning("%s: could not release %s/%s", self.identity, self._namespace, self._name)

    async def _give_up(self) -> _Attempt:
        try:
            lease = await self._api.get(LEASES, self._name, self._namespace)
            if lease.holder == self.identity:
                body = release_patch(lease, self._wall_clock())
                lease = await self._api.patch(LEASES, self._name, body, self._namespace)
            self._observe(lease)
        except NotFound:
            pass  # Deleted by hand: nothing is held.
        self._may_hold = False
        return _Attempt.NOT_OURS
