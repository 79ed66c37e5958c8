"""A watch under load: `python -m bench.informers.bursts PORT FOLDER EVENTS`.

The controller's Pod informer syncs. Then the server sends EVENTS changes of Pods on one connection, as fast
as the informer reads them. Prints one JSON object with the cost from the first event until the last one is in
the store and its handlers have run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import aiohttp
import anyio

from bench.informers.kubeconfig import url_of, write_kubeconfig
from bench.informers.readers import Clock
from bench.informers.stalls import Stalls
from controller.api.pods import AnyPod
from controller.cluster.caches import make_caches
from informers.client.transport import connect

WATCH_POLL_SECONDS = 0.05


class _Counter:
    """An inline change handler that measures the time from the first to the last expected change."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._clock: Clock | None = None
        self.report: dict[str, float] = {}
        self.done = anyio.Event()
        self._seen = 0

    def count(self, old: AnyPod | None, new: AnyPod | None) -> None:
        """Count one update. Additions belong to the first list, and nothing is deleted."""
        if old is None or new is None:
            return
        if self._clock is None:
            self._clock = Clock()
        self._seen += 1
        if self._seen == self._expected:
            self.report = self._clock.report(self._seen)
            self.done.set()


async def main(port: int, folder: Path, events: int) -> None:
    """Sync, then process a burst."""
    stalls = Stalls()
    kubeconfig = str(write_kubeconfig(folder, port))
    async with (
        connect(kubeconfig=kubeconfig) as api,
        aiohttp.ClientSession(url_of(port)) as control,
        anyio.create_task_group() as tasks,
    ):
        pods = make_caches(api, "openrl-system", Random(0)).pods
        counter = _Counter(events)
        pods.on_change(counter.count, inline=True)
        tasks.start_soon(pods.run)
        await pods.wait_for_sync()
        while not pods.statistics().reflector.watches_total:  # noqa: ASYNC110 - no event exists for this
            await anyio.sleep(WATCH_POLL_SECONDS)
        await anyio.sleep(WATCH_POLL_SECONDS)
        tasks.start_soon(stalls.run)
        await (await control.post(f"/control/events?count={events}")).read()
        await counter.done.wait()
        stall = {"stall_wall_seconds": stalls.wall_seconds, "stall_cpu_seconds": stalls.cpu_seconds}
        print(json.dumps(counter.report | stall))  # noqa: T201 - the parent process reads this
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    _, given_port, given_folder, given_events = sys.argv
    anyio.run(
        main,
        int(given_port),
        Path(given_folder),
        int(given_events),
        backend_options={"use_uvloop": True},
    )
