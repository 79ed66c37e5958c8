"""Watch Pods and print their changes: `python examples/watch_pods.py [NAMESPACE]`, Ctrl-C to stop."""
# ruff: noqa: D101, D103, T201 - the names are enough

import sys
from contextlib import suppress
from random import SystemRandom

import anyio
import msgspec

from informers.api import Resource
from informers.cache.informer import SharedInformer
from informers.client.decoding import Metadata, struct_decoder
from informers.client.transport import connect


class Status(msgspec.Struct, frozen=True):
    phase: str = ""


class Pod(msgspec.Struct, frozen=True):
    metadata: Metadata
    status: Status = Status()


PODS = Resource("", "v1", "pods", "Pod", namespaced=True, decode=struct_decoder(Pod))


def print_change(old: Pod | None, new: Pod | None) -> None:
    if old and new:
        print("changed", new.metadata.name, f"{old.status.phase} -> {new.status.phase}", flush=True)
    elif new:
        print("added", new.metadata.name, new.status.phase, flush=True)
    elif old:
        print("deleted", old.metadata.name, old.status.phase, flush=True)


async def main(namespace: str) -> None:
    async with connect() as api:
        pods = SharedInformer(api, PODS, namespace=namespace, rng=SystemRandom())
        pods.on_change(print_change)
        await pods.run()


with suppress(KeyboardInterrupt):
    anyio.run(main, "".join(sys.argv[1:2]))
