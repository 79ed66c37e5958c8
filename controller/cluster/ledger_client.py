"""The seat protocol's port (`ledger.api.LedgerApi`) on the API server and the caches.

API errors become the protocol's own errors here and nowhere else. A 5xx answer to a write counts as an
unknown outcome, like a timeout: the server may have stored the write before it failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from controller.api.core import Pod
from controller.api.dra import CLAIMS
from controller.cluster.caches import CLAIM_LEDGERS, Caches, controlling_workload
from controller.cluster.creations import Creations, refusable
from controller.cluster.live_reader import LiveReader
from informers.api import Api, ObjectKey, Preconditions
from informers.errors import AlreadyExists, Conflict, NotFound, OutcomeUnknown, ServerError
from ledger.api import LedgerConflict, LedgerExists, LedgerMissing, LedgerOutcomeUnknown
from ledger.seat_rules import LivePod
from ledger.state import ClaimLedger, Seat, ledger_document, seats_patch


@contextmanager
def _as_ledger_errors() -> Iterator[None]:
    """Map API errors to ledger errors; all others propagate."""
    try:
        yield
    except AlreadyExists as error:
        raise LedgerExists(str(error)) from error
    except Conflict as error:
        raise LedgerConflict(str(error)) from error
    except NotFound as error:
        raise LedgerMissing(str(error)) from error
    except (OutcomeUnknown, ServerError) as error:
        raise LedgerOutcomeUnknown(str(error)) from error


class LedgerClient:
    """Ledgers and claims of the workers' namespace."""

    def __init__(self, api: Api, caches: Caches, live: LiveReader, namespace: str) -> None:
        self._api = api
        self._caches = caches
        self._live = live
        self._namespace = namespace
        self._creations = Creations()

    def cached(self, name: str) -> ClaimLedger | None:
        """Return the cached ledger."""
        return self._caches.ledgers.store.get(ObjectKey(self._namespace, name))

    def live_pods(self, claim: str) -> Sequence[LivePod]:
        """Return the cached worker Pods on the claim that have not ended."""
        pods = self._caches.pods_on(ObjectKey(self._namespace, claim))
        return [self._live_pod(pod) for pod in pods if not pod.finished]

    def _live_pod(self, pod: Pod) -> LivePod:
        owner = controlling_workload(pod)
        name, uid = (owner.name, owner.uid) if owner else (pod.metadata.name, pod.metadata.uid)
        workload = self._caches.workloads.store.get(ObjectKey(self._namespace, name))
        if workload is None or workload.uid != uid:
            # Without its Workload, nothing shows that the Pod may share its claim.
            return LivePod(name, uid, exclusive=True)
        exclusive = workload.spec.exclusive or workload.spec.accelerator.mode != "SingleGPU"
        return LivePod(name, uid, exclusive, created_at=workload.metadata.creation_timestamp)

    async def read(self, name: str) -> ClaimLedger | None:
        """Read the ledger from the API server and update the cache."""
        return await self._live.ledger(name)

    async def create(self, claim: str, seats: Sequence[Seat]) -> ClaimLedger:
        """Create a claim's ledger. Raises `CreationRefused`."""
        document = ledger_document(claim, self._namespace, seats)
        with _as_ledger_errors(), self._creations.of(CLAIM_LEDGERS.kind, claim):
            created = await self._api.create(CLAIM_LEDGERS, document, self._namespace)
        self._caches.ledgers.store.apply_write(created)
        return created

    async def write_seats(self, ledger: ClaimLedger, seats: Sequence[Seat]) -> ClaimLedger:
        """Write the seats on exactly this version of the ledger. Raises `WriteRefused`."""
        patch = seats_patch(ledger, seats)
        with _as_ledger_errors(), refusable():
            written = await self._api.patch(CLAIM_LEDGERS, ledger.metadata.name, patch, self._namespace)
        self._caches.ledgers.store.apply_write(written)
        return written

    async def delete(self, ledger: ClaimLedger) -> None:
        """Delete exactly this version of exactly this ledger. Raises `WriteRefused`."""
        meta = ledger.metadata
        preconditions = Preconditions(meta.uid, meta.resource_version)
        with _as_ledger_errors(), refusable():
            left = await self._api.delete(
                CLAIM_LEDGERS, meta.name, self._namespace, preconditions=preconditions
            )
        if left is None:
            self._caches.ledgers.store.apply_delete(ledger)
        else:
            self._caches.ledgers.store.apply_write(left)

    async def read_claim_uid(self, claim: str, ledger_uid: str) -> str | None:
        """Return the UID of the claim that this ledger owns, `None` only after a live read."""
        found = self._caches.claims.store.get(ObjectKey(self._namespace, claim))
        if found is None or not found.owned_by(ledger_uid):
            found = await self._live.claim(claim)
        return found.metadata.uid if found is not None and found.owned_by(ledger_uid) else None

    async def delete_claim(self, claim: str, uid: str) -> None:
        """Delete the claim with exactly this UID. It is no error if that claim does not exist.

        Raises `WriteRefused`.
        """
        cached = self._caches.claims.store.get(ObjectKey(self._namespace, claim))
        try:
            with refusable():
                left = await self._api.delete(
                    CLAIMS, claim, self._namespace, preconditions=Preconditions(uid)
                )
        except (NotFound, Conflict):
            left = None
        except (OutcomeUnknown, ServerError) as error:
            raise LedgerOutcomeUnknown(str(error)) from error
        if left is not None and left.metadata.finalizers:
            self._caches.claims.store.apply_write(left)
        elif cached is not None and cached.metadata.uid == uid:
            self._caches.claims.store.apply_delete(cached, answer=left)
