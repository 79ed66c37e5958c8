"""Objects are reduced once, while decoding; the rest is never held in memory."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from informers.api import ObjectKey
from informers.cache.reflector import Reflector
from informers.cache.reflector_state import Listing, Watching
from informers.cache.store import Store
from informers.client.transport import KubeApi
from tests.informers.client.objects import THINGS, Thing, added, decode_page, listing, thing
from tests.informers.client.server import ScriptedServer, reply, stream

pytestmark = pytest.mark.anyio


async def test_s9_each_object_is_transformed_once_before_storing_and_a_failure_affects_no_other(
    api: KubeApi, server: ScriptedServer
) -> None:
    calls: Counter[str] = Counter()

    def shorten(data: bytes) -> Thing:
        found = THINGS.decode(data)
        calls[f"{found.metadata.name}@{found.metadata.resource_version}"] += 1
        if found.metadata.name == "odd":
            raise ValueError("no transform for this one")
        return Thing(found.metadata)

    server.answers(
        reply(listing(thing("a", version=1, text="x" * 100), thing("odd", version=2), thing("b", version=3))),
        stream(added("odd", version=10), added("c", version=11, text="x" * 100)),
    )
    store: Store[Thing] = Store()
    reflector = Reflector(api, replace(THINGS, decode=shorten), store, rng=Random(0))
    assert await reflector.step(Listing()) == Watching()
    await reflector.step(Watching())
    assert calls == Counter({"a@1": 1, "odd@2": 1, "b@3": 1, "odd@10": 1, "c@11": 1})
    assert [found.spec.text for found in store] == ["", "", ""]
    assert list(store.unreadable) == [ObjectKey("ns", "odd")]
    assert store.resource_version == "11"


async def held_bytes(managed_fields: list[dict[str, object]]) -> int:
    """Return the memory of 200 decoded objects with these managed fields."""
    items = []
    for number in range(200):
        item = thing(f"thing-{number}", version=number + 1)
        metadata = item["metadata"]
        assert isinstance(metadata, dict)
        items.append({**item, "metadata": {**metadata, "managedFields": managed_fields}})
    data = json.dumps(listing(*items)).encode()
    del items
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        page = await decode_page(data)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(page.items) == 200
    return after - before


async def test_s10_managed_fields_are_not_held() -> None:
    fields: dict[str, object] = {f"f:field-{number}": {} for number in range(100)}
    manager: dict[str, object] = {"manager": "kubectl", "fieldsV1": fields}
    await held_bytes([])
    # A fraction of the managed fields of a single object, which take over 2 KB.
    assert await held_bytes([manager]) < await held_bytes([]) + 2_000
