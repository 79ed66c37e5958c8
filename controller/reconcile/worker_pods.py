"""Contract §5.10: create the Pod after its assignment, and rebuild it if it belongs to another one."""

from __future__ import annotations

from enum import Enum, auto

from controller.api.core import Pod
from controller.api.documents import pod_document
from controller.api.names import ASSIGNMENT_ENV
from controller.api.reasons import Phase, ReasonCode
from controller.api.status import Assignment, StatusUpdate, assignment_of
from controller.api.workload import Workload
from controller.cluster.caches import controlling_workload
from controller.reconcile.context import ReconcileContext
from controller.reconcile.seat_booker import ContendedError
from controller.reconcile.teardown import Departure
from informers.errors import AlreadyExists, BadRequest, Forbidden, Invalid, OutcomeUnknown, ServerError
from placement.types import PreferredNode


class PodOwnership(Enum):
    """Whose Pod it is that has the worker's name."""

    ABSENT = auto()
    OURS = auto()
    PREDECESSOR = auto()
    """Controlled by an earlier Workload of this name."""
    FOREIGN = auto()


class Creation(Enum):
    """What became of the attempt to create the Pod."""

    CREATED = auto()
    WAIT = auto()
    """Another Pod of that name is still there: its end wakes the worker."""
    REJECTED = auto()
    """The API server refuses it for now; seat and claim were given back."""
    FAILED = auto()
    """The template can never become a Pod: the Workload has failed."""


def ownership_of(pod: Pod | None, workload: Workload) -> PodOwnership:
    """Whose Pod it is, by controller reference: labels and names prove nothing."""
    if pod is None:
        return PodOwnership.ABSENT
    owner = controlling_workload(pod)
    if owner is None:
        return PodOwnership.FOREIGN
    if owner.uid == workload.uid:
        return PodOwnership.OURS
    return PodOwnership.PREDECESSOR if owner.name == workload.name else PodOwnership.FOREIGN


def assignment_on(pod: Pod, workload: Workload) -> Assignment:
    """The claim and the booking that a Pod was created for; other containers' variables are their own."""
    stamp = pod.env(workload.spec.worker_container_name, ASSIGNMENT_ENV)
    return Assignment(next(iter(pod.claim_names), ""), stamp)


class WorkerPods:
    """Creates and rebuilds the Pods of workers that have an assignment."""

    def __init__(self, context: ReconcileContext, departure: Departure) -> None:
        self._context = context
        self._departure = departure

    async def create(self, workload: Workload) -> Creation:
        """Create the Pod of an assignment that was committed in this reconcile."""
        document = pod_document(workload, assignment_of(workload), self._preferred_nodes(workload))
        try:
            await self._context.writer.create_pod(document)
        except (AlreadyExists, OutcomeUnknown, ServerError):
            return await self._read_back(workload)
        except (Invalid, BadRequest) as error:
            await self._departure.fail(workload, ReasonCode.INVALID_TEMPLATE, error.message)
            return Creation.FAILED
        except Forbidden as error:
            await self._departure.reject(workload, error.message)
            return Creation.REJECTED
        return Creation.CREATED

    async def rebuild(self, workload: Workload) -> Creation:
        """Create the Pod again: the status says Placing first, which proves that nobody ended the worker.

        Another process that is about to clear this assignment, by what it read before, then conflicts:
        otherwise it would see no Pod yet, and release the seat under the one that is made now.
        """
        reason = self._context.booked_reason(workload, workload.status.claim_name)
        outcome = StatusUpdate(phase=Phase.PLACING, reason=reason)
        return await self.create(
            await self._context.fencing_write(workload, "the Pod is made again", outcome)
        )

    async def _read_back(self, workload: Workload) -> Creation:
        """Whose Pod answered the create, or whether a lost answer created ours."""
        pod = await self._context.live.pod_of(workload.name)
        ours = ownership_of(pod, workload) is PodOwnership.OURS
        if pod is not None and ours and assignment_on(pod, workload) == assignment_of(workload):
            return Creation.CREATED
        if pod is None:
            # The server failed before it stored anything, and may go on failing.
            raise ContendedError(workload.name)
        self._context.requeue(workload)
        return Creation.WAIT

    def _preferred_nodes(self, workload: Workload) -> tuple[PreferredNode, ...]:
        """The order of the shapes once more, as preferences: `firstAvailable` orders within a node only."""
        claim = self._context.claim(workload.status.claim_name)
        if claim is None or claim.allocated:
            return ()
        request = self._context.requests.of(workload)
        return () if request is None else self._context.fleet.preferred_nodes(request)
