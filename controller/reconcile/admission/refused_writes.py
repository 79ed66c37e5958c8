"""Contract §5.10: patches and deletions that the API server refuses, of whatever object."""

from __future__ import annotations

from contextlib import suppress

from controller.api.reasons import ReasonCode, has_code, sentence
from controller.api.status import StatusUpdate
from controller.api.verdicts import stable_words
from controller.api.workload import Workload
from controller.cluster.creations import WriteRefused
from controller.reconcile import teardown
from controller.reconcile.context import ReconcileContext
from controller.runtime import logs
from informers.api import ObjectKey
from informers.errors import ApiError, Forbidden
from informers.queue.runner import Result

REFUSALS = (WriteRefused, Forbidden)
"""A refused write, or a read without the right to it."""

_log = logs.get_logger(__name__)


async def report(context: ReconcileContext, workload: Workload, error: ApiError) -> Result:
    """Report a refusal in the status, or else in an Event, and back off.

    A worker without a Pod releases everything that it holds.
    """
    _log.warning("Write was refused", workload=workload, err=error.message)
    result = Result(requeue_after_seconds=context.local_state.rejection_backoff.add(workload.uid))
    key = ObjectKey.of(workload)
    current = context.caches.workloads.store.get(key)
    if current is None or current.uid != workload.uid:
        return Result()
    with suppress(*REFUSALS):  # of the status as well: the Event has the words
        await _report_in_status(context, current, error)
    current = context.caches.workloads.store.get(key) or current
    if not has_code(current.status.reason, ReasonCode.POD_REJECTED):
        context.events.record_refused_write(current, error.message)
    return result


async def _report_in_status(context: ReconcileContext, workload: Workload, error: ApiError) -> None:
    """Write the refusal, unless the status states an outcome or follows the worker's Pod."""
    words = stable_words(error.message, workload)
    if workload.deleting:
        await context.report(workload, StatusUpdate(reason=sentence(ReasonCode.POD_REJECTED, words)))
    elif not workload.terminal and context.pod(workload) is None:
        await teardown.clear(context, workload, ReasonCode.POD_REJECTED, words, message=error.message)
