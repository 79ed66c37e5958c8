"""The controller's caches and fleet under relists.

`python -m bench.informers.relists PORT FOLDER SHARE...` relists once per share of Pods that changed without
an event. All Pod handlers of the controller run. Prints one JSON object for the first list and for each
relist, with its duration and the stalls of the event loop.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random

import aiohttp
import anyio

from bench import procfs
from bench.informers.kubeconfig import url_of, write_kubeconfig
from bench.informers.stalls import Stalls
from controller.cluster.caches import freeze_when_synced
from controller.config.flags import Settings
from controller.config.nondeterminism import Nondeterminism
from controller.controller import Controller
from informers.client.transport import connect

POLL_SECONDS = 0.02
SETTLE_SECONDS = 0.5


def _nondeterminism() -> Nondeterminism:
    ids = count(1)
    return Nondeterminism(Random(0), lambda: datetime.now(UTC), lambda: f"id-{next(ids)}")


async def main(port: int, folder: Path, shares: list[float]) -> None:
    """Sync, then relist for each share."""
    stalls = Stalls()
    async with (
        connect(kubeconfig=str(write_kubeconfig(folder, port))) as api,
        aiohttp.ClientSession(url_of(port)) as control,
        anyio.create_task_group() as tasks,
    ):
        controller = Controller(
            api, Settings(device_driver="gpu.example.com", device_class="gpu"), _nondeterminism()
        )
        tasks.start_soon(stalls.run)
        tasks.start_soon(controller.watch)
        pods = controller.caches.pods
        await freeze_when_synced(controller.caches)
        await anyio.sleep(SETTLE_SECONDS)
        _report(stalls, pods.statistics().reflector.list_duration_seconds.sum, len(pods.store), share=-1.0)
        for share in shares:
            before = pods.statistics().reflector.list_duration_seconds
            if share:
                await (await control.post(f"/control/change?share={share}")).read()
            await anyio.sleep(SETTLE_SECONDS)
            stalls.reset()
            await (await control.post("/control/expire")).read()
            while pods.statistics().reflector.list_duration_seconds.count == before.count:  # noqa: ASYNC110
                await anyio.sleep(POLL_SECONDS)
            seconds = pods.statistics().reflector.list_duration_seconds.sum - before.sum
            await anyio.sleep(SETTLE_SECONDS)
            _report(stalls, seconds, len(pods.store), share=share)
        tasks.cancel_scope.cancel()


def _report(stalls: Stalls, seconds: float, objects: int, *, share: float) -> None:
    report = {
        "share": share,
        "seconds": seconds,
        "objects": objects,
        "stall_wall_seconds": stalls.wall_seconds,
        "stall_cpu_seconds": stalls.cpu_seconds,
        "stall_collection_seconds": stalls.collection_seconds,
        "rss_peak_bytes": procfs.own_rss_peak_bytes(),
    }
    print(json.dumps(report), flush=True)  # noqa: T201 - the parent process reads this


if __name__ == "__main__":
    _, given_port, given_folder, *given_shares = sys.argv
    anyio.run(
        main,
        int(given_port),
        Path(given_folder),
        list(map(float, given_shares)),
        backend_options={"use_uvloop": True},
    )
