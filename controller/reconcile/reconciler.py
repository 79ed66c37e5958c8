"""The reconcile of one Workload as a list of steps, in the order of contract §5.

Reads come from the caches. State beyond the API objects is in `LocalState` and may be lost at any time. A
step that cannot continue ends the reconcile; a later event or the retry interval starts the next one.
"""

from __future__ import annotations

from controller.api.names import FINALIZER
from controller.api.requests import InvalidWorkloadError
from controller.api.status import assignment_of
from controller.api.workload import Workload
from controller.cluster.creations import CreationRefused
from controller.cluster.object_writer import WorkloadGone
from controller.reconcile import (
    abandon_claim,
    assign,
    completion,
    fallback_to_sharing,
    placement_timeout,
    repair,
    reporting,
    teardown,
    worker_pods,
)
from controller.reconcile.admission import refused_workers, refused_writes
from controller.reconcile.context import ContendedError, ReconcileContext, Scope
from controller.reconcile.losses import lost_pods, unfit_claims
from controller.reconcile.seat_choice import YieldedError
from controller.reconcile.worker_pods import PodOwnership, ownership_of
from informers.api import ObjectKey
from informers.errors import (
    ApiError,
    Conflict,
    Invalid,
    NotLeading,
    OutcomeUnknown,
    TooManyRequests,
)
from informers.queue.runner import Result

RETRIED_QUIETLY = (Conflict, ContendedError, NotLeading, OutcomeUnknown, TooManyRequests, WorkloadGone)
"""Expected errors with concurrent writers or a busy server: retried with back-off, not logged as errors."""

YIELD_SECONDS = 0.05
"""Requeue delay of a worker that left a seat to an older one: about the duration of a booking."""


class Reconciler:
    """Brings one Workload closer to its desired state; called by the workers of the queue."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def __call__(self, key: ObjectKey) -> Result:
        """Reconcile the Workload of this key. Raises an error to be retried with back-off."""
        was_activated = self._context.scheduling_queue.start(key)
        workloads = self._context.caches.workloads.store
        if unreadable := workloads.unreadable.get(key):
            self._context.events.record_invalid(unreadable, f"The Workload is unreadable: {unreadable.error}")
        before = workloads.get(key)
        if before is None:
            return Result()
        try:
            with self._context.self_writes.reconciling(key):
                return await self._run_steps(before)
        except refused_writes.REFUSALS as error:
            return await refused_writes.report(self._context, before, error)
        except Invalid as error:  # by today's schema, although it is stored
            self._context.events.record_invalid(before, error.message)
            raise
        finally:
            self._context.refused_groups.end_try(key)
            after = self._context.caches.workloads.store.get(key)
            if was_activated:
                self._pass_on_unused_seat(before, after or before)
            if after is None or after.uid != before.uid:
                # The deletion event arrived during this reconcile, which may have stored new state since.
                self._context.local_state.forget(before.uid)

    def _pass_on_unused_seat(self, before: Workload, after: Workload) -> None:
        """Activate the next worker if this one was activated for a free seat and was not assigned one.

        An assigned worker without a new assignment booked its seat before the activation.
        """
        claim = self._context.claim(after.status.claim_name)
        moved = assignment_of(after) != assignment_of(before)
        if not moved or claim is None or not claim.allocated:
            self._context.activate_next(before)

    async def _run_steps(self, workload: Workload) -> Result:
        """Run the steps until one ends the reconcile, and then apply the placement timeout."""
        context = self._context
        scope = Scope(workload, context.pod(workload))
        context.local_state.ages.observe(workload, scope.pod)
        for step in (
            teardown.finish_deletion,  # contract §5.1
            teardown.finish_terminal,  # contract §5.2
            add_finalizer,  # contract §5.3
        ):
            result = await step(context, scope)
            if result is not None:
                return result
        key = ObjectKey.of(workload)
        try:
            result = await self._place(scope)
        except YieldedError:
            return Result(requeue_after_seconds=YIELD_SECONDS)
        except CreationRefused as error:
            result = await refused_workers.refuse(context, scope.workload, error)
        except refused_writes.REFUSALS as error:
            result = await refused_writes.report(context, scope.workload, error)
        except (ApiError, ContendedError):
            # Repeated errors must not keep a worker from its placement timeout.
            if await placement_timeout.enforce(context, key, Result(0.0)) is placement_timeout.EXPIRED:
                return placement_timeout.EXPIRED
            raise
        return await placement_timeout.enforce(context, key, result)  # contract §5.13

    async def _place(self, scope: Scope) -> Result:
        for step in (
            validate,  # contract §5.4
            worker_pods.resolve_ownership,  # contract §5.5
            completion.finish,  # contract §5.12
            repair.repair,  # contract §5.6
            lost_pods.replace_lost_pod,  # contract §5.12
            worker_pods.wait_for_pod,
            unfit_claims.leave_unfit_claim,  # contract §5.7
            refused_workers.hold_back,  # contract §5.10
            abandon_claim.abandon_refusing_claim,  # contract §5.7
            abandon_claim.wait_for_scheduler,  # contract §5.7
            fallback_to_sharing.fall_back,  # contract §5.8
            assign.assign,  # contract §5.9
            worker_pods.create_missing,  # contract §5.10
            reporting.report_pod,  # contract §5.11
        ):
            result = await step(self._context, scope)
            if result is not None:
                return result
        return self._context.retry


async def add_finalizer(context: ReconcileContext, scope: Scope) -> Result | None:
    """Add the finalizer before anything is booked."""
    finalizers = scope.workload.metadata.finalizers
    if FINALIZER not in finalizers:
        scope.workload = await context.writer.set_finalizers(scope.workload, (*finalizers, FINALIZER))
        scope.pod = context.pod(scope.workload)
    return None


async def validate(context: ReconcileContext, scope: Scope) -> Result | None:
    """Build the placement request. A stricter rule never fails a placed worker."""
    workload = scope.workload
    if workload.status.claim_name or ownership_of(scope.pod, workload) is PodOwnership.OURS:
        scope.request = context.requests.of(workload)
        return None
    try:
        scope.request = context.requests.validate(workload)
    except InvalidWorkloadError as error:
        await teardown.fail(context, workload, error.code, error.detail)
        return Result()
    return None
