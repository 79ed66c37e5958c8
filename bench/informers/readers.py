"""Readers that list all Pods once: `python -m bench.informers.readers READER PORT FOLDER`.

* `informer`: a `SharedInformer` with the controller's decoder and indexes, until it has synced.
* `plain`: the same pages through aiohttp, each decoded by `msgspec.json.decode` into dicts and stored by key.
* `typed`: the client and models of `kubernetes_asyncio`, stored by key.
* `held`: the informer under `tracemalloc`, which reports the bytes per Pod and slows it down.

`plain` and `typed` disable the garbage collector, because their million objects would make it slow. This is
their best case.

Prints one JSON object with the cost from the first request until the last object is stored. Imports and
connection setup do not count.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import anyio
import msgspec

from bench import procfs
from bench.informers.kubeconfig import url_of, write_kubeconfig

PAGE_LIMIT = 500


class Clock:
    """Wall time, CPU time and CPU wait since the creation of the clock."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._waited = procfs.cpu_wait_seconds(os.getpid())

    def report(self, objects: int) -> dict[str, float]:
        """Return the cost so far of reading `objects`."""
        return {
            "objects": objects,
            "seconds": time.perf_counter() - self._wall,
            "cpu_seconds": time.process_time() - self._cpu,
            "cpu_wait_seconds": procfs.cpu_wait_seconds(os.getpid()) - self._waited,
            "rss_peak_bytes": procfs.own_rss_peak_bytes(),
        }


async def informer(port: int, folder: Path) -> dict[str, float]:
    """Measure the informer of this project."""
    from controller.cluster.caches import make_caches  # noqa: PLC0415 - not for the other readers
    from informers.client.transport import connect  # noqa: PLC0415

    async with (
        connect(kubeconfig=str(write_kubeconfig(folder, port))) as api,
        anyio.create_task_group() as tasks,
    ):
        pods = make_caches(api, "openrl-system", Random(0)).pods
        before_bytes = tracemalloc.get_traced_memory()[0]
        clock = Clock()
        tasks.start_soon(pods.run)
        await pods.wait_for_sync()
        report = clock.report(len(pods.store))
        if tracemalloc.is_tracing():
            gc.collect()
            held_bytes = tracemalloc.get_traced_memory()[0]
            report["held_bytes_each"] = (held_bytes - before_bytes) / len(pods.store)
        tasks.cancel_scope.cancel()
    return report


async def held(port: int, folder: Path) -> dict[str, float]:
    """Measure the informer with traced memory."""
    tracemalloc.start()
    return await informer(port, folder)


async def plain(port: int, folder: Path) -> dict[str, float]:  # noqa: ARG001 - all readers have one signature
    """Measure the minimum: pages, dicts and keys."""
    held: dict[tuple[str, str], Any] = {}
    gc.disable()
    async with aiohttp.ClientSession(read_bufsize=256 * 1024) as session:
        clock, token = Clock(), ""
        while True:
            query = {"limit": str(PAGE_LIMIT), **({"continue": token} if token else {})}
            async with session.get(f"{url_of(port)}/api/v1/pods", params=query) as response:
                page = msgspec.json.decode(await response.read())
            for item in page["items"]:
                held[item["metadata"]["namespace"], item["metadata"]["name"]] = item
            token = page["metadata"].get("continue", "")
            if not token:
                return clock.report(len(held))


async def typed(port: int, folder: Path) -> dict[str, float]:  # noqa: ARG001 - all readers have one signature
    """Measure the official client's models."""
    from kubernetes_asyncio import client  # noqa: PLC0415

    held: dict[tuple[str, str], Any] = {}
    gc.disable()
    async with client.ApiClient(client.Configuration(host=url_of(port))) as api_client:
        api = client.CoreV1Api(api_client)
        clock, token = Clock(), ""
        while True:
            more: dict[str, Any] = {"_continue": token} if token else {}
            page = await api.list_pod_for_all_namespaces(limit=PAGE_LIMIT, **more)
            for item in page.items:
                held[item.metadata.namespace, item.metadata.name] = item
            token = page.metadata._continue or ""
            if not token:
                return clock.report(len(held))


def main() -> None:
    """Run a reader and print its report."""
    reader, port, folder = sys.argv[1:]
    read = {"informer": informer, "plain": plain, "typed": typed, "held": held}[reader]
    report = anyio.run(read, int(port), Path(folder), backend_options={"use_uvloop": True})
    print(json.dumps(report))  # noqa: T201 - the parent process reads this


if __name__ == "__main__":
    main()
