"""The order of a reconcile (contract §5): who goes, who waits, who is placed, what is said.

Reads come from the caches. What is remembered between two reconciles beyond what the API holds is in `memory`
and may be lost. A step that cannot go on returns, and wake-ups bring the worker back.
"""

from __future__ import annotations

from controller.api.core import Pod
from controller.api.dra import ResourceClaim
from controller.api.names import FINALIZER
from controller.api.reasons import ReasonCode
from controller.api.requests import InvalidWorkloadError
from controller.api.status import assignment_of
from controller.api.workload import Workload
from controller.cluster.object_writer import WorkloadGone
from controller.reconcile.abandon import Abandon
from controller.reconcile.assign import Assign
from controller.reconcile.commit import Commit
from controller.reconcile.completion import Ended, Ending
from controller.reconcile.context import ReconcileContext
from controller.reconcile.fallback import Fallback, refused_by_scheduler
from controller.reconcile.placement_timeout import TimeLimit
from controller.reconcile.repair import Repair, Repaired
from controller.reconcile.reporting import Reporting, Waiting
from controller.reconcile.seat_booker import ContendedError, SeatBooker, YieldedError
from controller.reconcile.teardown import Departure
from controller.reconcile.worker_pods import Creation, PodOwnership, WorkerPods, ownership_of
from informers.api import ObjectKey
from informers.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotLeading,
    OutcomeUnknown,
    TooManyRequests,
)
from informers.queue.runner import Result
from placement.types import PlacementRequest

RETRIED_QUIETLY = (
    Conflict,
    ContendedError,
    NotLeading,
    OutcomeUnknown,
    TooManyRequests,
    WorkloadGone,
)
"""What is part of normal life with other writers and a busy server: retried with back-off, not an error."""

DONE = Result()

UNSETTLED = Result(requeue_after_seconds=0.0)
"""Stands for the outcome of a reconcile that failed, where only its time limit is asked about."""

MAX_REJECTIONS = 3
"""How often the kubelet of a claim's node may reject the worker's Pod before the claim is abandoned."""

YIELD_SECONDS = 0.05
"""How soon a worker looks again that left a seat to an older one: about the time that a booking takes."""


class Reconciler:
    """Brings one Workload a step further; called by the workers of the queue."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._retry = Result(requeue_after_seconds=context.settings.retry_interval_seconds)
        seats = SeatBooker(context)
        self._departure = Departure(context)
        commit = Commit(context, self._departure)
        self._waiting = Waiting(context)
        self._ended = Ended(context, self._departure)
        self._assign = Assign(context, seats, commit, self._waiting)
        self._fallback = Fallback(context, seats, commit, self._departure)
        self._pods = WorkerPods(context, self._departure)
        self._repair = Repair(context, self._departure)
        self._abandon = Abandon(context, self._departure)
        self._time_limit = TimeLimit(context, self._departure)
        self._reporting = Reporting(context)

    async def __call__(self, key: ObjectKey) -> Result:
        """Reconcile the Workload of this key. Raises what shall be retried with back-off."""
        was_activated = self._context.scheduling_queue.start(key)
        before = self._context.caches.workloads.store.get(key)
        try:
            with self._context.self_writes.reconciling(key):
                return await self._reconcile(key)
        finally:
            if before is not None:
                if was_activated:
                    self._hand_on(before)
                self._forget_if_gone(before)

    def _forget_if_gone(self, before: Workload) -> None:
        """What was noted of a worker that went meanwhile would stay: its end was told of before."""
        after = self._context.caches.workloads.store.get(ObjectKey.of(before))
        if after is None or after.uid != before.uid:
            self._context.local_state.forget(before.uid)

    def _hand_on(self, before: Workload) -> None:
        """A worker that was woken for a free seat and took none leaves it to the next in line.

        It may be seated all the same: on one that it was taking already when it was woken.
        """
        after = self._context.caches.workloads.store.get(ObjectKey.of(before)) or before
        claim = self._context.claim(after.status.claim_name)
        moved = assignment_of(after) != assignment_of(before)
        if not moved or claim is None or not claim.allocated:
            self._context.activate_next(before)

    async def _reconcile(self, key: ObjectKey) -> Result:
        workload = self._context.caches.workloads.store.get(key)
        if workload is None:
            return DONE
        self._context.local_state.ages.look(workload, self._context.pod(workload))
        if workload.deleting or workload.terminal:
            return await self._leave(workload)
        workload = await self._with_finalizer(workload)
        try:
            result = await self._place(workload)
        except YieldedError:
            return Result(requeue_after_seconds=YIELD_SECONDS)
        except Forbidden as error:
            result = await self._refused_by_server(workload, error)
        except (ApiError, ContendedError):
            # What fails again and again must not keep a worker from its time limit.
            if await self._within_time_limit(key, UNSETTLED) is DONE:
                return DONE
            raise
        return await self._within_time_limit(key, result)

    async def _refused_by_server(self, workload: Workload, error: Forbidden) -> Result:
        """A 403 on claim or ledger: said in the status, what was booked is given back, then a back-off."""
        delay_seconds = self._context.local_state.rejections.add(workload.uid)
        current = self._context.caches.workloads.store.get(ObjectKey.of(workload))
        if current is not None and self._context.pod(current) is None:
            await self._departure.reject(current, error.message)
        return Result(requeue_after_seconds=delay_seconds)

    async def _leave(self, workload: Workload) -> Result:
        """Contract §5.1 and §5.2: a Workload that is being deleted, or has ended."""
        if workload.terminal and not workload.deleting:
            self._context.local_state.settle(workload.uid)
            await self._departure.withdraw(workload)
            return DONE
        ending = await self._departure.delete(workload)
        if ending is None:
            return DONE
        return Result(requeue_after_seconds=await self._waiting.for_pod_gone(workload, ending))

    async def _within_time_limit(self, key: ObjectKey, result: Result) -> Result:
        """A worker that waits is looked at again when its time is over, at the latest; then it fails."""
        workload = self._context.caches.workloads.store.get(key)
        if (
            workload is None
            or workload.deleting
            or workload.terminal
            or key not in self._context.scheduling_queue
        ):
            return result
        remaining = self._time_limit.remaining_seconds(workload)
        if remaining is None:
            return result
        if remaining > 0:
            again = result.requeue_after_seconds
            return Result(requeue_after_seconds=remaining if again is None else min(again, remaining))
        pod = self._context.pod(workload)
        nondeterminism = self._time_limit.last_chance_seconds(workload, pod)
        if nondeterminism > 0:
            return Result(requeue_after_seconds=nondeterminism)
        await self._time_limit.expire(workload, pod)
        return DONE

    async def _with_finalizer(self, workload: Workload) -> Workload:
        """Contract §5.3: before anything is booked."""
        held = workload.metadata.finalizers
        if FINALIZER in held:
            return workload
        return await self._context.writer.set_finalizers(workload, (*held, FINALIZER))

    async def _place(self, workload: Workload) -> Result:
        """Contract §5.4 and §5.5: a valid request, and whose Pod has the worker's name."""
        pod = self._context.pod(workload)
        standing = ownership_of(pod, workload)
        try:
            request = self._request(workload, standing)
        except InvalidWorkloadError as fault:
            await self._departure.fail(workload, fault.code, fault.detail)
            return DONE
        if standing is PodOwnership.FOREIGN and pod is not None:
            return await self._foreign(workload, pod)
        if standing is PodOwnership.PREDECESSOR and pod is not None:
            return await self._predecessor(workload, pod)
        if pod is not None and pod.finished:
            return await self._finished(workload, pod)
        return await self._held(workload, request, pod)

    async def _finished(self, workload: Workload, pod: Pod) -> Result:
        """Ended or lost: an outcome is recorded, a lost Pod is replaced once it is gone."""
        ending = await self._ended.record(workload, pod)
        match ending:
            case Ending.GOING:
                return Result(requeue_after_seconds=await self._waiting.for_pod_gone(workload, pod))
            case Ending.REJECTED:
                delay_seconds = self._context.local_state.rejections.add(workload.uid)
                claim = self._context.claim(workload.status.claim_name)
                if (
                    claim is not None
                    and self._context.local_state.rejections.count(workload.uid) % MAX_REJECTIONS == 0
                ):
                    await self._abandon.give_up(workload, claim, "its kubelet kept rejecting the Pod")
                return Result(requeue_after_seconds=delay_seconds)
            case Ending.RECORDED | Ending.UNSURE:
                return DONE

    async def _held(self, workload: Workload, request: PlacementRequest | None, pod: Pod | None) -> Result:
        """Contract §5.6: keep what the worker holds, repair it, or clear it and place the worker again."""
        finding = await self._repair.inspect(workload, pod)
        if finding.repaired is Repaired.WAIT:
            return await self._while_pod_ends(finding.workload)
        if pod is None or finding.repaired is Repaired.CLEARED:
            return await self._without_pod(finding.workload, request)
        if pod.metadata.deletion_timestamp is not None:
            return Result(requeue_after_seconds=await self._waiting.for_pod_gone(finding.workload, pod))
        return await self._with_pod(finding.workload, request, pod)

    async def _while_pod_ends(self, workload: Workload) -> Result:
        """What was set in motion may be the end of its Pod, which the status speaks of after a while."""
        pod = self._context.pod(workload)
        if pod is None or pod.metadata.deletion_timestamp is None:
            return self._retry
        return Result(requeue_after_seconds=await self._waiting.for_pod_gone(workload, pod))

    def _request(self, workload: Workload, standing: PodOwnership) -> PlacementRequest | None:
        """Validated while the worker holds nothing; a placed one is never failed by a stricter rule."""
        if not workload.status.claim_name and standing is not PodOwnership.OURS:
            return self._context.requests.validate(workload)
        return self._context.requests.of(workload)

    async def _without_pod(self, workload: Workload, request: PlacementRequest | None) -> Result:
        """Contract §5.9 and §5.10: a claim for a worker that has none, then its Pod."""
        hold_seconds = self._context.local_state.rejections.hold(workload.uid)
        if hold_seconds > 0:
            return Result(requeue_after_seconds=hold_seconds)
        if workload.status.claim_name:
            return self._after(workload, await self._pods.rebuild(workload))
        if request is None:
            # Its claim is gone and its spec can no longer be read: the next reconcile validates it.
            self._context.requeue(workload)
            return DONE
        return await self._assign_and_create(workload, request)

    async def _assign_and_create(self, workload: Workload, request: PlacementRequest) -> Result:
        assigned = await self._assign.assign(workload, request)
        if assigned is None:
            return self._retry
        return self._after(assigned, await self._pods.create(assigned))

    def _after(self, workload: Workload, creation: Creation) -> Result:
        if creation is Creation.REJECTED:
            return Result(requeue_after_seconds=self._context.local_state.rejections.add(workload.uid))
        return DONE if creation is Creation.FAILED else self._retry

    async def _foreign(self, workload: Workload, pod: Pod) -> Result:
        """A Pod that is nobody's worker has our name: the Pod is left alone."""
        live = await self._context.live.pod_of(workload.name)
        if ownership_of(live, workload) is not PodOwnership.FOREIGN:
            self._context.requeue(workload)
            return self._retry
        detail = f"Pod {pod.metadata.name} exists and belongs to somebody else"
        await self._departure.fail(workload, ReasonCode.POD_CONFLICT, detail)
        return DONE

    async def _predecessor(self, workload: Workload, pod: Pod) -> Result:
        """The Pod of an earlier Workload of this name: it is ended by its UID and waited for.

        Fresh reads must agree: seen through an old cache, a successor's Pod looks like a predecessor's.
        """
        if pod.metadata.deletion_timestamp is None:
            live = await self._context.live.workload(workload.name)
            read_live_pod = await self._context.live.pod_of(workload.name)
            if live is None or live.uid != workload.uid or read_live_pod is None:
                raise ContendedError(workload.name)
            if ownership_of(read_live_pod, live) is not PodOwnership.PREDECESSOR:
                raise ContendedError(workload.name)
            if await self._context.writer.delete_pod(read_live_pod):
                self._context.requeue(workload)
        await self._waiting.for_predecessor_pod(workload, pod)
        return self._retry

    async def _with_pod(self, workload: Workload, request: PlacementRequest | None, pod: Pod) -> Result:
        """Contract §5.8 and §5.11: fall back to sharing if kube-scheduler refused the Pod; then report."""
        claim = self._context.claim(workload.status.claim_name)
        if claim is None or not refused_by_scheduler(pod):
            return await self._report(workload, request, pod)
        if claim.allocated:
            return await self._stuck(workload, request, claim, pod)
        if request is not None:
            return await self._refused(workload, request, claim, pod)
        return self._retry

    async def _stuck(
        self, workload: Workload, request: PlacementRequest | None, claim: ResourceClaim, pod: Pod
    ) -> Result:
        """Contract §5.7: an allocated claim refuses the Pod; it is abandoned when that lasts."""
        remaining = self._abandon.remaining_seconds(workload, request, claim, pod)
        if remaining <= 0:
            await self._abandon.abandon(workload, claim, pod)
            return self._retry
        if request is not None:
            await self._waiting.refused_by_scheduler(workload, request, pod)
        return Result(requeue_after_seconds=min(remaining, self._context.settings.retry_interval_seconds))

    async def _refused(
        self, workload: Workload, request: PlacementRequest, claim: ResourceClaim, pod: Pod
    ) -> Result:
        """kube-scheduler finds no device: share, or wait with the pending claim (the autoscaler's signal)."""
        held = self._departure.held_on(workload, claim.metadata.name)
        moved = await self._fallback.to_a_seat(workload, request, pod)
        if moved is not None:
            creation = await self._pods.create(moved)
            await self._fallback.release_old(moved, claim.metadata.name, held, creation)
            return self._after(moved, creation)
        cleared = await self._fallback.leave_joined(workload, claim, pod)
        if cleared is None:
            cleared = await self._fallback.retire_outgrown(workload, request, claim, pod)
        if cleared is not None:
            return await self._assign_and_create(cleared, request)
        await self._waiting.refused_by_scheduler(workload, request, pod)
        return self._retry

    async def _report(self, workload: Workload, request: PlacementRequest | None, pod: Pod) -> Result:
        if pod.status.phase == "Running":
            self._context.local_state.settle(workload.uid)
            await self._reporting.running(workload, request, pod)
            return DONE
        if pod.bound:
            return Result(requeue_after_seconds=await self._reporting.starting(workload, request, pod))
        requeue = await self._reporting.scheduler_error(workload, pod)
        return self._retry if requeue is None else Result(requeue_after_seconds=requeue)
