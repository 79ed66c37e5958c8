"""The bare writer: a program that performs the six writes of a dedicated placement and nothing else.

`python -m bench.baseline <kubeconfig> <writers>` places every Workload that is created from now on. It sends
the same requests as the controller in the same order, with as many writers as the controller has reconciles.
It has no fleet, ledger protocol, limit, wait, repair or restart, and any refused request ends it. The
difference in speed is the cost of deciding, caching and correctness.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from bench.client import Client, connect
from bench.request_bodies import Metadata, Placement, Workload
from e2e.harness.workloads import CLAIMS, LEDGERS, PODS, WORKLOADS

READY = "bare writer is ready"
STRICT = "?fieldValidation=Strict"


class PodSpec(Struct, frozen=True, rename="camel"):
    """`Pod.spec`."""

    node_name: str = ""


class PodStatus(Struct, frozen=True):
    """`Pod.status`."""

    phase: str = ""


class Pod(Struct, frozen=True):
    """The parts of a Pod that show whether and where it runs."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus


class WorkloadEvent(Struct, frozen=True):
    """An event of the Workload watch."""

    type: str
    object: Workload


class PodEvent(Struct, frozen=True):
    """An event of the Pod watch."""

    type: str
    object: Pod


class Response(Struct, frozen=True):
    """The response to a write of any object."""

    metadata: Metadata


@dataclass
class PendingWorker:
    """A worker whose Pod does not run yet."""

    placement: Placement
    version: str


Job = Callable[[], Awaitable[None]]

_decode_response = msgspec.json.Decoder(Response).decode


class BaselineWriter:
    """A baseline that turns watch events into jobs for its writers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pending: dict[str, PendingWorker] = {}
        """By Pod name."""
        self._put, self._jobs = anyio.create_memory_object_stream[Job](float("inf"))

    def __repr__(self) -> str:
        return f"<BaselineWriter pending={len(self._pending)}>"

    async def run(self, writers: int, ready: Callable[[], None]) -> None:
        """Place Workloads until cancelled."""
        workloads = await self._client.version(WORKLOADS)
        pods = await self._client.version(PODS)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_workloads, workloads)
            tasks.start_soon(self._watch_pods, pods)
            for _ in range(writers):
                tasks.start_soon(self._write)
            ready()

    async def _watch_workloads(self, version: str) -> None:
        decode = msgspec.json.Decoder(WorkloadEvent).decode
        async for line in self._client.watch(WORKLOADS, version):
            event = decode(line)
            if event.type == "ADDED":
                self._put.send_nowait(partial(self._place, event.object))

    async def _watch_pods(self, version: str) -> None:
        decode = msgspec.json.Decoder(PodEvent).decode
        async for line in self._client.watch(PODS, version):
            pod = decode(line).object
            if pod.status.phase == "Running" and (pending := self._pending.pop(pod.metadata.name, None)):
                self._put.send_nowait(partial(self._report, pending, pod.spec.node_name))

    async def _write(self) -> None:
        async for job in self._jobs:
            await job()

    async def _place(self, workload: Workload) -> None:
        client, placement = self._client, Placement.of(workload, str(uuid.uuid4()))
        path, meta = f"{WORKLOADS}/{placement.name}", workload.metadata
        response = await client.patch(path, placement.finalizer_patch(meta.resource_version))
        version = _decode_response(response).metadata.resource_version
        ledger = _decode_response(await client.create(LEDGERS, placement.ledger_document()))
        await client.create(CLAIMS, placement.claim_document(ledger.metadata.uid))
        response = await client.patch(f"{path}/status", placement.placing_patch(version))
        version = _decode_response(response).metadata.resource_version
        self._pending[placement.pod] = PendingWorker(placement, version)
        await client.create(PODS + STRICT, placement.pod_document())

    async def _report(self, pending: PendingWorker, node: str) -> None:
        placement = pending.placement
        patch = placement.running_patch(pending.version, node, datetime.now(UTC))
        await self._client.patch(f"{WORKLOADS}/{placement.name}/status", patch)


async def run(kubeconfig: Path, writers: int) -> None:
    """Place Workloads with the permissions of a kubeconfig until the process ends."""
    async with connect(kubeconfig) as client:
        await BaselineWriter(client).run(writers, ready=partial(_print, READY))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # The same event loop as the controller's.
    anyio.run(run, Path(sys.argv[1]), int(sys.argv[2]), backend_options={"use_uvloop": True})
