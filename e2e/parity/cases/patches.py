"""Merge patches and JSON patches."""

from __future__ import annotations

from e2e.parity.objects import LEDGERS, PODS, WORKLOADS, ledger, pod, workload
from e2e.parity.script import Script
from informers.api import PatchType

_OTHER = "7a1c0ba4-0000-4000-8000-000000000000"


async def null_deletes_objects_merge_and_lists_are_replaced(script: Script) -> None:
    await script.create(LEDGERS, ledger(labels={"a": "1", "b": "2"}))
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"labels": {"a": None, "c": "3"}}})
    await script.patch(LEDGERS, "ledger-a", {"spec": {"seats": [{"workload": "x"}, {"workload": "y"}]}})
    await script.patch(LEDGERS, "ledger-a", {"spec": {"seats": [{"workload": "z", "new": 1}]}})
    await script.patch(LEDGERS, "ledger-a", {"spec": {"seats": None}, "metadata": {"labels": None}})


async def a_patch_with_a_version_is_conditional(script: Script) -> None:
    for resource, body in ((LEDGERS, ledger()), (PODS, pod()), (WORKLOADS, workload())):
        name = body["metadata"]["name"]
        created = await script.create(resource, body)
        assert created is not None
        version = created["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}
        await script.patch(resource, name, patch)
        await script.patch(resource, name, {"metadata": {"resourceVersion": version, "labels": {"c": "d"}}})
        await script.patch(resource, name, {"metadata": {"resourceVersion": version}})
        await script.patch(resource, name, {"metadata": {"resourceVersion": "", "labels": {"e": "f"}}})
        await script.patch(resource, name, {"metadata": {"resourceVersion": None, "labels": {"g": "h"}}})


async def a_patch_with_a_uid_is_conditional(script: Script) -> None:
    for resource, body in ((LEDGERS, ledger()), (PODS, pod())):
        name = body["metadata"]["name"]
        created = await script.create(resource, body)
        assert created is not None
        uid = created["metadata"]["uid"]
        await script.patch(resource, name, {"metadata": {"uid": uid, "labels": {"a": "b"}}})
        await script.patch(resource, name, {"metadata": {"uid": _OTHER, "labels": {"c": "d"}}})
        await script.patch(resource, name, {"metadata": {"uid": _OTHER}})


async def a_patch_without_effect_keeps_the_version(script: Script) -> None:
    for resource, body in (
        (LEDGERS, ledger(labels={"a": "b"})),
        (PODS, pod(metadata={"labels": {"a": "b"}})),
    ):
        name = body["metadata"]["name"]
        await script.create(resource, body)
        await script.patch(resource, name, {})
        await script.patch(resource, name, {"metadata": {"labels": {"a": "b", "absent": None}}})
        await script.patch(resource, name, {"metadata": {"annotations": {}, "finalizers": []}})


async def an_absent_object_is_not_found(script: Script) -> None:
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"labels": {"a": "b"}}})
    await script.patch(LEDGERS, "ledger-a", [], kind=PatchType.JSON)


async def a_body_of_the_wrong_shape_is_refused(script: Script) -> None:
    await script.create(LEDGERS, ledger())
    await script.create(PODS, pod())
    for resource, name in ((LEDGERS, "ledger-a"), (PODS, "pod")):
        await script.patch(resource, name, [])
        await script.patch(resource, name, {}, kind=PatchType.JSON)


async def name_and_kind_cannot_be_patched(script: Script) -> None:
    await script.create(LEDGERS, ledger())
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"name": "ledger-b"}})
    await script.patch(LEDGERS, "ledger-a", {"metadata": {"namespace": "default"}})
    await script.patch(LEDGERS, "ledger-a", {"kind": "Workload"})


async def json_patches_apply_in_order_or_not_at_all(script: Script) -> None:
    await script.create(LEDGERS, ledger(labels={"a": "1"}))

    async def patch(*operations: dict[str, object]) -> None:
        await script.patch(LEDGERS, "ledger-a", list(operations), kind=PatchType.JSON)

    await patch({"op": "test", "path": "/metadata/labels/a", "value": "1"},
                {"op": "replace", "path": "/metadata/labels/a", "value": "2"})  # fmt: skip
    await patch({"op": "add", "path": "/metadata/labels/b", "value": "3"},
                {"op": "test", "path": "/metadata/labels/a", "value": "1"})  # fmt: skip
    await patch({"op": "add", "path": "/spec/seats", "value": [{"workload": "x"}]})
    await patch({"op": "add", "path": "/spec/seats/-", "value": {"workload": "y"}})
    await patch({"op": "add", "path": "/spec/seats/0", "value": {"workload": "w"}})
    await patch({"op": "remove", "path": "/spec/seats/1"})
    await patch({"op": "remove", "path": "/metadata/labels/b"})
    await patch({"op": "replace", "path": "/spec/absent", "value": 1})
    await patch({"op": "remove", "path": "/spec/seats/7"})
    await patch({"op": "add", "path": "/spec/absent/child", "value": 1})
    await patch({"op": "test", "path": "/metadata/labels/x~1y", "value": None})
    await patch({"op": "shout", "path": "/spec"})
    await patch({"op": "test", "path": "/metadata/resourceVersion", "value": "1"})
