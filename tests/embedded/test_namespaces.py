"""A deleted namespace is emptied and then removed, as `kubectl delete` expects."""

from __future__ import annotations

import anyio
import pytest

from e2e.parity.objects import LEDGERS, NAMESPACES, PODS, ledger, pod
from informers.api import WatchEventType
from informers.client.transport import KubeApi

pytestmark = pytest.mark.anyio

NAME = "team-a"
SECONDS = 20


async def test_a_deleted_namespace_is_removed_with_all_its_objects(api: KubeApi) -> None:
    made = await api.create(NAMESPACES, {"metadata": {"name": NAME}})
    await api.create(LEDGERS, ledger(), NAME)
    await api.create(PODS, pod(), NAME)

    ending = await api.delete(NAMESPACES, NAME)

    assert ending is not None
    assert ending.document["status"] == {"phase": "Terminating"}
    version = made.metadata.resource_version
    async with api.watch(
        NAMESPACES, resource_version=version, timeout_seconds=SECONDS, idle_seconds=SECONDS
    ) as events:
        with anyio.fail_after(SECONDS):
            while (await anext(events)).type is not WatchEventType.DELETED:
                pass
    for kind in (LEDGERS, PODS):
        assert (await api.list_page(kind, NAME)).items == []
    again = await api.create(NAMESPACES, {"metadata": {"name": NAME}})
    assert again.metadata.uid != made.metadata.uid


async def test_an_update_without_a_spec_does_not_stop_the_deletion(
    api: KubeApi,
) -> None:
    await api.create(NAMESPACES, {"metadata": {"name": NAME}})
    replacement = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}}
    replaced = await api.update(NAMESPACES, NAME, replacement)
    assert replaced.document["spec"] == {"finalizers": ["kubernetes"]}

    ending = await api.delete(NAMESPACES, NAME)
    assert ending is not None
    assert ending.document["status"] == {"phase": "Terminating"}
