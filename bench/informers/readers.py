"""Reads all Pods once, in one of several ways: `python -m bench.informers.readers WAY PORT FOLDER`.

* `informer`: a `SharedInformer` with the controller's decoder and indexes, until it has synced;
* `plain`: the same pages over aiohttp, each decoded by `msgspec.json.decode` into dicts, kept by key;
* `typed`: `kubernetes_asyncio`'s client and its models, kept by key;
* `held`: the informer again, under `tracemalloc`, which adds the bytes held for each Pod and slows it down.

The garbage collector is off for the plain and the typed way, which hold a million objects that it would walk
again and again: that is their best.

Prints one JSON object: what it took from the first request until the last object is held. Imports and
connecting are not part of it.
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
    """Wall and CPU time since it was made, and how long there was no processor for what was ready to run."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._waited = procfs.cpu_wait_seconds(os.getpid())

    def report(self, objects: int) -> dict[str, float]:
        """What was used so far for reading `objects`."""
        return {
            "objects": objects,
            "seconds": time.perf_counter() - self._wall,
            "cpu_seconds": time.process_time() - self._cpu,
            "cpu_wait_seconds": procfs.cpu_wait_seconds(os.getpid()) - self._waited,
            "rss_peak_bytes": procfs.own_rss_peak_bytes(),
        }


async def informer(port: int, folder: Path) -> dict[str, float]:
    """Ours."""
    from controller.cluster.caches import make_caches  # noqa: PLC0415 - no other way may pay for it
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
    """Ours, with an account of what is held."""
    tracemalloc.start()
    return await informer(port, folder)


async def plain(port: int, folder: Path) -> dict[str, float]:  # noqa: ARG001 - all ways are called alike
    """The least: pages, dicts, a key for each."""
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


async def typed(port: int, folder: Path) -> dict[str, float]:  # noqa: ARG001 - all ways are called alike
    """The official client's models."""
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
    """Read, report."""
    way, port, folder = sys.argv[1:]
    read = {"informer": informer, "plain": plain, "typed": typed, "held": held}[way]
    report = anyio.run(read, int(port), Path(folder), backend_options={"use_uvloop": True})
    print(json.dumps(report))  # noqa: T201 - whoever started it reads this


if __name__ == "__main__":
    main()
