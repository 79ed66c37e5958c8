"""One round: a controller reads lists and watches with odd objects among good ones.

The property: every good object is in its cache at its last version, an odd one is at most unreadable, no list
or watch fails, no handler fails, and what was decoded can be validated, converted and encoded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import anyio
import msgspec

from controller.api.requests import InvalidWorkloadError, PlacementRequests
from controller.api.status import Assignment
from controller.api.worker_pod_document import pod_document
from controller.config.flags import Settings
from controller.config.nondeterminism import Nondeterminism
from controller.controller import Controller
from controller.reconcile.local_state import Ages
from informers.api import ObjectKey, Page, Resource, WatchEvent
from informers.cache.informer import SharedInformer
from informers.client.listing import SLICE_BYTES, read_page
from informers.client.watch_stream import EventDecoder, WatchCounts, decode_events
from tests.fuzz.documents import CONTENTS, NAMESPACE, document, encode, odd_text

LIST_VERSION = 1000
GOOD, ODD = 3, 6
DEADLINE_SECONDS = 60.0


class Served:
    """The list and the watch of one resource, as text."""

    def __init__(self, rng: Random, resource: Resource[Any]) -> None:
        self.resource = resource
        good = [document(resource, f"good-{number}", number + 1) for number in range(GOOD)]
        self.odd = [odd_text(rng, resource, f"odd-{number}", number + 10) for number in range(ODD)]
        items = [*map(encode, good), *self.odd]
        rng.shuffle(items)
        head = f'{{"kind":"{resource.kind}List","apiVersion":"{resource.api_version}",'
        self.list = f'{head}"metadata":{{"resourceVersion":"{LIST_VERSION}"}},"items":[{",".join(items)}]}}'
        self.lines: list[str] = []
        version = LIST_VERSION
        for number in rng.choices(range(2 * ODD), k=ODD):
            version += 1
            changed = odd_text(rng, resource, f"odd-{number}", version)
            self.odd.append(changed)
            self.lines.append(f'{{"type":"MODIFIED","object":{changed}}}\n')
            version += 1
            touched = encode(document(resource, f"good-{rng.randrange(GOOD)}", version))
            self.lines.append(f'{{"type":"MODIFIED","object":{touched}}}\n')
        version += 1
        self.lines.append(f'{{"type":"ADDED","object":{encode(document(resource, "good-last", version))}}}\n')
        self.last_version = str(version)


class TextApi:
    """The part of `informers.api.Api` that informers use, on texts."""

    def __init__(self, served: dict[str, Served], chunk_bytes: int) -> None:
        self._served = served
        self._chunk_bytes = chunk_bytes
        self.requests: list[str] = []

    async def list_page(
        self,
        resource: Resource[Any],
        *_: object,
        on_object: Callable[[Any], object] | None = None,
        **__: object,
    ) -> Page[Any]:
        """Return the whole list."""
        self.requests.append(f"list {resource}")
        return await read_page(resource, self._chunks(self._served[str(resource)].list), on_object)

    @asynccontextmanager
    async def watch(
        self, resource: Resource[Any], *_: object, **__: object
    ) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Yield the events, and then wait."""
        self.requests.append(f"watch {resource}")
        lines = "".join(self._served[str(resource)].lines)
        yield decode_events(self._chunks(lines, ends=False), EventDecoder(resource, WatchCounts()), "watch")

    async def _chunks(self, text: str, *, ends: bool = True) -> AsyncIterator[bytes]:
        data = text.encode()
        for start in range(0, len(data), self._chunk_bytes):
            yield data[start : start + self._chunk_bytes]
        if not ends:
            await anyio.sleep_forever()


async def run_round(seed: int) -> None:
    """Run one round. Raises `AssertionError`, or whatever the product raises."""
    rng = Random(seed)
    served = {str(resource): Served(rng, resource) for resource in CONTENTS}
    api = TextApi(served, rng.choice((700, 4096, SLICE_BYTES, 4 * SLICE_BYTES)))
    nondeterminism = Nondeterminism(rng, now=lambda: datetime.now(UTC), new_id=lambda: "id")
    settings = Settings(leader_elect=False, namespace=NAMESPACE)
    controller = Controller(api, settings, nondeterminism)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(controller.watch)
        with anyio.fail_after(DEADLINE_SECONDS):
            while any(
                _version(informer) != served[_name(informer)].last_version for informer in _all(controller)
            ):
                assert len(api.requests) <= 2 * len(served), api.requests
                await anyio.sleep(0.001)
        for informer in _all(controller):
            _check(informer, served[_name(informer)])
        assert sorted(api.requests) == sorted(
            f"{verb} {name}" for name in served for verb in ("list", "watch")
        )
        _use(controller)
        tasks.cancel_scope.cancel()


def _all(controller: Controller) -> Iterator[SharedInformer[Any]]:
    return iter(controller.caches.all())


def _name(informer: SharedInformer[Any]) -> str:
    return informer.statistics().resource


def _version(informer: SharedInformer[Any]) -> str:
    return informer.store.resource_version


def _check(informer: SharedInformer[Any], served: Served) -> None:
    assert informer.statistics().handler_failures_total == 0
    keys = {*(ObjectKey.of(obj) for obj in informer.store), *informer.store.unreadable}
    names = [key.name for key in keys]
    for name in (*(f"good-{number}" for number in range(GOOD)), "good-last"):
        assert name in names
    good = [each for each in informer.store.unreadable.values() if each.name.startswith("good")]
    assert not good, good
    for number in range(ODD):
        assert f"odd-{number}" in names, served.odd[number]


def _use(controller: Controller) -> None:
    """Run what a reconcile does with decoded objects, as far as it needs no writes."""
    requests = PlacementRequests(2, "gpu.example.com")
    ages = Ages(lambda: datetime.now(UTC), lambda: 0.0)
    pods = [pod for pod in controller.caches.pods.store if hasattr(pod, "spec")]
    for workload in controller.caches.workloads.store:
        for pod in (None, *pods):
            ages.observe(workload, pod)  # type: ignore[arg-type]
        try:
            requests.validate(workload)
        except InvalidWorkloadError:
            pass
        else:
            msgspec.json.encode(pod_document(workload, Assignment("claim-a", "1"), ()))
        requests.seat_request(workload)
    controller.gauges.statistics()
    controller.fleet_updater.fleet.capacity()


def seeds(first: int) -> Iterator[int]:
    """Return the seeds of a manual run: reproducible, and different from those of other first seeds."""
    rng = Random(first)
    while True:
        yield rng.getrandbits(48)
