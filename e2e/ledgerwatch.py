"""An independent witness: every revision of every ledger, as the API server's own watch shows it.

It uses neither the controller's informers nor its decoder, so that it cannot share their mistakes.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.controlplane import WORKER_NAMESPACE, Cluster
from e2e.openrl import LEDGERS

END_SECONDS = 10


@dataclass(frozen=True)
class Revision:
    """The seats of one ledger at one revision; `seen_seconds` is of this process's monotonic clock."""

    ledger: str
    seats: tuple[str, ...]
    seen_seconds: float


class LedgerWitness:
    """Collects revisions in the background."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._revisions: list[Revision] = []
        self._unexpected: list[object] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<LedgerWitness revisions={len(self._revisions)}>"

    @property
    def revisions(self) -> list[Revision]:
        """What was seen so far, oldest first."""
        return list(self._revisions)

    @property
    def most_seats(self) -> int:
        """The most seats that any ledger had at any revision."""
        return max((len(revision.seats) for revision in self.revisions), default=0)

    @property
    def names(self) -> set[str]:
        """Every ledger that was seen."""
        return {revision.ledger for revision in self.revisions}

    def join(self) -> None:
        """Return when the watch has ended and all of it was read; an event of another kind is an error."""
        self._thread.join(END_SECONDS)
        assert not self._unexpected, self._unexpected

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["type"] not in {"ADDED", "MODIFIED", "DELETED"}:
                self._unexpected.append(event)
            if event["type"] not in {"ADDED", "MODIFIED"}:
                continue
            ledger = event["object"]
            seats = tuple(seat["workload"] for seat in ledger["spec"].get("seats", []))
            self._revisions.append(Revision(ledger["metadata"]["name"], seats, time.monotonic()))


@contextmanager
def witnessed_ledgers(cluster: Cluster) -> Iterator[LedgerWitness]:
    """Watch the ledgers from now until the block ends."""
    listed = cluster.api.get(LEDGERS)
    version = listed["metadata"]["resourceVersion"]
    path = f"/apis/openrl.io/v1alpha1/watch/namespaces/{WORKER_NAMESPACE}/claimledgers"
    path = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=600"
    process = subprocess.Popen(
        [cluster.kubectl_path, f"--kubeconfig={cluster.admin_kubeconfig}", "get", "--raw", path],
        stdout=subprocess.PIPE,
        env=cluster.kubectl_environment(),
    )
    with process:
        witness = LedgerWitness(process)
        try:
            yield witness
        finally:
            process.terminate()
            witness.join()
