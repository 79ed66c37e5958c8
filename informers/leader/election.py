"""Leader election on a Lease: at most one process works, judged by each process's own monotonic clock.

Why it is safe: a leader counts from the time at which it *sent* its last successful renewal, and stops its
work `renew_deadline` after that. Candidates count from the time at which they *saw* the record change, which
is later, and wait `lease` seconds, which is longer. A claim is a write on the version that was read, so one
of two concurrent claims fails. Clocks may be wrong by any amount; only their rates must agree to within
lease / renew deadline. A cancelled or unanswered request may still take effect; the record shows it later.

The work is cancelled on loss and has the rest of the lease for cleanup. Nothing can stop work that ignores
the cancellation, or recall a sent request. So election saves work but does not fence: every write needs its
own precondition, and a check of `may_write` before it.

Give the elector an `Api` with its own connections, so that no other traffic can starve the renewals. It needs
the verbs get, create and patch on its lease.
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

# Candidates retry after one retry period plus up to this fraction of it, so that they do not synchronize.
ACQUIRE_JITTER = 0.2
# A request gets at most half the renew deadline, so that a second attempt fits after one that hangs.
ATTEMPT_SECONDS_MIN = 1.0


class LeadershipLost(Exception):
    """Raised by `LeaderElector.run` after the lease was lost and the work was stopped."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Times of the election in seconds, by default those of Kubernetes components."""

    lease_seconds: float = 15.0
    """Time that candidates wait after the last renewal; written to the lease rounded up to seconds."""
    renew_deadline_seconds: float = 10.0
    """Time that the leader continues after its last successful renewal."""
    retry_period_seconds: float = 2.0
    """Time between two attempts to acquire or renew."""

    def validate(self) -> None:
        """Raise `ValueError` for times with which a leader could outlive its lease, or not renew in time."""
        lease, renew, retry = self.lease_seconds, self.renew_deadline_seconds, self.retry_period_seconds
        if not (math.inf > lease > renew > (1 + ACQUIRE_JITTER) * retry > 0):
            rule = f"lease duration > renew deadline > {1 + ACQUIRE_JITTER:g} x retry period > 0"
            raise ValueError(f"leader election needs {rule}, got {lease:g} s, {renew:g} s and {retry:g} s")


@dataclass(frozen=True)
class ElectionStatistics:
    """The state of one elector; `leading` is `leader_election_master_status`."""

    leading: bool
    terms_total: int
    slowpath_total: int
    """Renewals that had to read the lease first."""
    failed_attempts_total: int


class _Attempt(Enum):
    OURS = "ours"
    NOT_OURS = "not ours"
    FAILED = "failed"


class LeaderElector:
    """Runs work while it holds the lease `namespace/name`.

    Its identity is `host` and a suffix from `unique_suffix` (a UUID in production), so two processes on one
    host differ. `wall_clock` provides the written times and decides nothing.
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

        # The lease as last read or written, and the monotonic time of the last observed change of its record.
        self._observed: Lease | None = None
        self._observed_at = -math.inf
        # Monotonic time at which the last successful claim was sent.
        self._renewed_at = -math.inf
        # A claim was sent, and no other holder has been seen since.
        self._may_hold = False
        # From acquiring the lease until the work has ended; `_lost` is the reason if it had to be stopped.
        self._leading = False
        self._lost: str | None = None

        self._terms = 0
        self._slowpath = 0
        self._failed_attempts = 0
        self._last_error = ""  # of the last attempt, logged again only if it changes

    def __repr__(self) -> str:
        role = "leader" if self._leading else "standby"
        return f"<LeaderElector {self._namespace}/{self._name} {self.identity} {role}>"

    @property
    def leading(self) -> bool:
        """Whether the lease was acquired and the work has not ended."""
        return self._leading

    def may_write(self) -> bool:
        """Whether a guarded write is allowed: leading, with a recent enough renewal."""
        return self._leading and anyio.current_time() < self._renew_by

    def healthy(self, tolerance_seconds: float) -> bool:
        """Return false if the work continues more than `tolerance_seconds` after the lease expired.

        For a liveness probe: the process then ignores its loss, or its event loop is stuck.
        """
        expired_at = self._renewed_at + self._settings.lease_seconds
        return not self._leading or anyio.current_time() <= expired_at + tolerance_seconds

    def statistics(self) -> ElectionStatistics:
        """Return counters since the start and current gauges."""
        return ElectionStatistics(
            leading=self._leading,
            terms_total=self._terms,
            slowpath_total=self._slowpath,
            failed_attempts_total=self._failed_attempts,
        )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Acquire the lease, run `lead` while it is held, and release it once `lead` has ended.

        Returns or raises what `lead` does. Cancelling this cancels `lead`, and renewals continue until it has
        ended. A cancelled standby never calls `lead`. A lost lease cancels `lead` and then raises
        `LeadershipLost`.
        """
        self._lost = None
        try:
            await self._acquire()
            await self._lead(lead)
        finally:
            if self._may_hold and self._lost is None:
                with anyio.CancelScope(shield=True):
                    await self._release()

    @property
    def _holder(self) -> str:
        return self._observed.holder if self._observed is not None else ""

    @property
    def _renew_by(self) -> float:
        return self._renewed_at + self._settings.renew_deadline_seconds

    async def _acquire(self) -> None:
        # A response may arrive so late that the renew deadline has already passed.
        while await self._attempt(self._claim) is not _Attempt.OURS or anyio.current_time() >= self._renew_by:
            jitter = 1 + ACQUIRE_JITTER * self._rng.random()
            await anyio.sleep(self._settings.retry_period_seconds * jitter)

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        self._leading = True
        self._terms += 1
        logger.info("Became leader", extra=self._context())
        error: Exception | None = None
        async with anyio.create_task_group() as tasks:
            # Shielded: on cancellation, renewals continue until the work has ended.
            renewals, work = anyio.CancelScope(shield=True), anyio.CancelScope()
            tasks.start_soon(self._keep_renewing, renewals, work)
            try:
                with work:
                    await lead()
            except Exception as raised:  # noqa: BLE001 - raised below, outside of the task group
                error = raised
            finally:
                self._leading = False
                renewals.cancel()
        if self._lost is not None:
            logger.error("Lost leadership", extra=self._context(reason=self._lost))
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
        """Wait one retry period and renew, bounded by the renew deadline; returns why leadership is lost."""
        attempt = _Attempt.FAILED
        with anyio.CancelScope(deadline=self._renew_by):
            await anyio.sleep(self._settings.retry_period_seconds)
            # After a pause of the whole process it is too late to renew, even if we still hold the lease.
            if anyio.current_time() < self._renew_by:
                attempt = await self._attempt(self._claim)
        if attempt is _Attempt.NOT_OURS:
            return f"the lease is held by {self._holder or 'nobody'}"
        if anyio.current_time() >= self._renew_by:
            return f"no renewal succeeded for {self._settings.renew_deadline_seconds:g} s"
        return None

    async def _attempt(self, request: Callable[[], Awaitable[_Attempt]]) -> _Attempt:
        """Make one `request` in bounded time. Any error is a failed attempt."""
        try:
            with anyio.fail_after(self._attempt_seconds):
                result = await request()
        except (ApiError, TimeoutError) as error:
            err = f"{type(error).__name__}: {error}"
            level = logging.DEBUG if err == self._last_error else logging.WARNING
            logger.log(level, "Election attempt failed", extra=self._context(err=err))
            self._last_error = err
        except Exception:
            logger.exception("Election attempt failed unexpectedly", extra=self._context())
        else:
            if self._last_error:
                logger.info("Recovered election", extra=self._context(err=self._last_error))
            self._last_error = ""
            return result
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
        # A leader whose name was removed has lost: others may have led since, even if the lease is free now.
        if self._leading or self._held_by_another():
            return _Attempt.NOT_OURS
        return await self._write(lease)

    async def _write(self, lease: Lease) -> _Attempt:
        body = claim_patch(lease, self.identity, self._lease_seconds, self._wall_clock())
        return await self._send(self._api.patch(LEASES, self._name, body, self._namespace))

    async def _create(self) -> _Attempt:
        """Create the missing lease; a manual deletion does not end its holder's term."""
        if not self._leading and self._held_by_another():
            return _Attempt.NOT_OURS
        body = new_lease(self._name, self.identity, self._lease_seconds, self._wall_clock())
        return await self._send(self._api.create(LEASES, body, self._namespace))

    async def _send(self, claim: Awaitable[Lease]) -> _Attempt:
        sent_at = anyio.current_time()
        self._may_hold = True
        self._observe(await claim)
        self._renewed_at = sent_at
        return _Attempt.OURS

    def _held_by_another(self) -> bool:
        """Whether the last known record has another holder and has not expired."""
        if self._observed is None or self._holder in {"", self.identity}:
            return False
        lease_seconds = self._observed.spec.lease_duration_seconds or self._lease_seconds
        return anyio.current_time() < self._observed_at + lease_seconds

    def _observe(self, lease: Lease) -> None:
        """Store the record. A change of the record counts as a renewal, a change of labels does not."""
        known = self._observed
        if known is None or (known.metadata.uid, known.spec) != (lease.metadata.uid, lease.spec):
            self._observed_at = anyio.current_time()
        if known is None or known.holder != lease.holder:
            logger.info("Observed lease holder", extra=self._context(holder=lease.holder))
        self._observed = lease

    async def _release(self) -> None:
        """Release the lease if we still hold it, so that a successor need not wait for its expiry."""
        with anyio.move_on_after(self._settings.renew_deadline_seconds):
            while self._may_hold:
                if await self._attempt(self._release_once) is _Attempt.FAILED:
                    await anyio.sleep(self._settings.retry_period_seconds)
        if self._may_hold:
            logger.warning("Failed to release lease", extra=self._context())

    async def _release_once(self) -> _Attempt:
        try:
            lease = await self._api.get(LEASES, self._name, self._namespace)
            if lease.holder == self.identity:
                body = release_patch(lease, self._wall_clock())
                lease = await self._api.patch(LEASES, self._name, body, self._namespace)
            self._observe(lease)
        except NotFound:
            pass  # Deleted manually: there is nothing to release.
        self._may_hold = False
        return _Attempt.NOT_OURS

    def _context(self, **values: object) -> dict[str, object]:
        return {"lease": f"{self._namespace}/{self._name}", "identity": self.identity, **values}
