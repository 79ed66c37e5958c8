"""Records what a real API server says to every case."""

from __future__ import annotations

import os

import anyio

from e2e.controlplane import Cluster
from e2e.controlplane.provider import open_cluster
from e2e.parity.cases import CASES, Case
from e2e.parity.running import TRANSCRIPTS, run_case, save_transcripts
from informers.transport import connect


async def _run(cluster: Cluster, case: Case) -> list[str]:
    async with connect(kubeconfig=str(cluster.admin_kubeconfig)) as api:
        return await run_case(case, api)


def _record() -> None:
    transcripts: dict[str, list[str]] = {}
    with open_cluster(os.environ) as cluster:
        cluster.install()
        for title, case in CASES.items():
            cluster.clear()
            transcripts[title] = anyio.run(_run, cluster, case)
            print(f"{title}: {len(transcripts[title])} lines")
        cluster.clear()
    save_transcripts(transcripts)
    print(f"{len(transcripts)} cases are in {TRANSCRIPTS}")


_record()
