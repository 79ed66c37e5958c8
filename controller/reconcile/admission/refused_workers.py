"""Contract §5.10: workers whose Pod, claim or ledger is refused wait in groups and ask in turn."""

from __future__ import annotations

from controller.api.dra import CLAIMS
from controller.api.pods import PODS
from controller.api.reasons import ReasonCode, has_code
from controller.api.status import Assignment
from controller.api.verdicts import CreationVerdict, group_text, lacks_dry_run, stable_words, verdict_of
from controller.api.worker_pod_document import pod_document
from controller.api.workload import Workload
from controller.cluster.creations import CreationRefused
from controller.queue.refused_groups import GroupKey, RefusedGroup, Turn
from controller.reconcile import reporting, teardown
from controller.reconcile.admission.own_claim import own_claim_document
from controller.reconcile.context import ReconcileContext, Scope, own_claim_names
from informers.api import ObjectKey
from informers.errors import AlreadyExists, ApiError
from informers.queue.runner import Result
from ledger.state import CLAIM_LEDGERS_KIND


async def hold_back(context: ReconcileContext, scope: Scope) -> Result | None:
    """Hold back a refused worker, and ask for its group when it is its turn.

    A worker whose Pod is refused takes nothing. One whose claim or ledger is refused still books a seat.
    """
    workload, key, groups = scope.workload, ObjectKey.of(scope.workload), context.refused_groups
    if scope.pod is not None or workload.status.claim_name:
        groups.forget(key)
        return None
    group = await _group(context, workload)
    if group is None:
        return None
    turn, seconds = groups.turn(key, group)
    if turn is Turn.PROBE and seconds <= 0:
        await _probe(context, scope, group)
        if group.is_open and group.next_to_try == key:
            turn = Turn.TRY
        elif key in group.turns:
            turn, seconds = groups.turn(key, group)
    if turn is Turn.TRY:
        groups.begin_try(key)
        return None
    if group.key.kind != PODS.kind:
        return None
    return Result(requeue_after_seconds=seconds) if turn is Turn.PROBE else Result()


def wait(context: ReconcileContext, workload: Workload) -> Result | None:
    """Return when a held worker has its next turn; `None` if it is not held back."""
    key = ObjectKey.of(workload)
    group = context.refused_groups.group_of(key)
    if group is None:
        return None
    turn, seconds = context.refused_groups.turn(key, group)
    if turn is Turn.WAIT:
        return context.retry if group.key.kind != PODS.kind else Result()
    return Result(requeue_after_seconds=seconds)


async def report_held(context: ReconcileContext, workload: Workload) -> bool:
    """Report a worker whose own claim or ledger is refused; returns whether it is one."""
    group = context.refused_groups.group_of(ObjectKey.of(workload))
    if group is None:
        return False
    if not has_code(workload.status.reason, ReasonCode.POD_REJECTED):
        await reporting.report_pending(context, workload, ReasonCode.POD_REJECTED, group.words)
    return True


async def refuse(context: ReconcileContext, workload: Workload, error: CreationRefused) -> Result:
    """Report a refusal, release everything that the worker holds, and add it to its group."""
    current = context.caches.workloads.store.get(ObjectKey.of(workload))
    if current is None or current.uid != workload.uid or context.pod(current) is not None:
        return context.retry
    prefix = "" if error.kind == PODS.kind else f"{error.kind}: "
    words = prefix + stable_words(error.message, current)
    key = GroupKey(
        error.kind, context.requests.equivalence_class(current), group_text(error.message, current)
    )
    context.refused_groups.refuse(ObjectKey.of(current), current.creation_order, key, words)
    await teardown.clear(context, current, ReasonCode.POD_REJECTED, words, message=prefix + error.message)
    return wait(context, current) or context.retry


async def _group(context: ReconcileContext, workload: Workload) -> RefusedGroup | None:
    """Return the worker's group, after it has joined the group of its class if there is one."""
    key, groups = ObjectKey.of(workload), context.refused_groups
    group, is_new = groups.group_of(key), groups.is_new(key)
    if group is not None:
        return group
    worker_class = context.requests.equivalence_class(workload)
    if is_new and has_code(workload.status.reason, ReasonCode.POD_REJECTED):
        # This process has just started: the status says what an earlier one learned.
        words = workload.status.reason.partition(": ")[2]
        kind, text = next(
            (
                (kind, words.removeprefix(f"{kind}: "))
                for kind in (CLAIMS.kind, CLAIM_LEDGERS_KIND)
                if words.startswith(f"{kind}: ")
            ),
            (PODS.kind, words),
        )
        group_key = GroupKey(kind, worker_class, group_text(text, workload))
        return groups.refuse(key, workload.creation_order, group_key, words)
    for kind in (PODS.kind, CLAIMS.kind, CLAIM_LEDGERS_KIND):
        group = groups.closed(kind, worker_class)
        if group is not None:
            groups.join(key, workload.creation_order, group)
            if kind == PODS.kind:
                await reporting.report_pending(context, workload, ReasonCode.POD_REJECTED, group.words)
            return group
    return None


async def _probe(context: ReconcileContext, scope: Scope, group: RefusedGroup) -> None:
    """Ask for the group by a dry run. Where there is none, the worker makes a real attempt."""
    workload, key = scope.workload, ObjectKey.of(scope.workload)
    name = next(own_claim_names(workload))
    try:
        if group.key.kind == PODS.kind:
            assignment = Assignment(name, f"probe-{workload.uid}")
            await context.writer.probe_pod(pod_document(workload, assignment, ()))
        elif group.key.kind == CLAIMS.kind and scope.request is not None:
            document = own_claim_document(context, name, workload.uid, scope.request)
            await context.writer.probe_claim(document)
    except AlreadyExists:
        pass
    except ApiError as error:
        is_malformed = verdict_of(error) is CreationVerdict.MALFORMED and group.key.kind == PODS.kind
        if lacks_dry_run(error) or is_malformed:
            context.refused_groups.probe_unanswered(key, group)
        else:
            context.refused_groups.probe_failed(key, group)
        return
    if group.key.kind == CLAIM_LEDGERS_KIND:
        context.refused_groups.probe_unanswered(key, group)
    else:
        context.refused_groups.probe_passed(key, group)
