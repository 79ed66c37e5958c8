"""Records the transcripts of all cases and scenes on a real control plane."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from e2e.controlplane import Cluster
from e2e.controlplane.provider import open_cluster
from e2e.parity.cases import CASES
from e2e.parity.running import RECORDED_CASES, RECORDED_SCENES, run_case, run_scene
from e2e.parity.scenes import SCENES
from informers.api import Api
from informers.client.transport import connect

Run = Callable[[Api], Awaitable[list[str]]]


async def _run(cluster: Cluster, run: Run) -> list[str]:
    async with connect(kubeconfig=str(cluster.admin_kubeconfig)) as api:
        return await run(api)


def _record(cluster: Cluster, title: str, run: Run) -> list[str]:
    cluster.clear()
    transcript = anyio.run(_run, cluster, run)
    print(f"{title}: {len(transcript)} lines")
    return transcript


def _main() -> None:
    with open_cluster(os.environ) as cluster:
        cluster.install()
        cases = {title: _record(cluster, title, partial(run_case, case)) for title, case in CASES.items()}
        scenes = {
            title: _record(cluster, title, partial(run_scene, scene)) for title, scene in SCENES.items()
        }
        cluster.clear()
    RECORDED_CASES.save(cases)
    RECORDED_SCENES.save(scenes)


_main()
