"""Pods: validation, immutable fields and deletion."""

from __future__ import annotations

from typing import Any

from e2e.parity.objects import PODS, pod
from e2e.parity.script import Script

_CONTAINER = {"name": "worker", "image": "worker:1"}


async def an_unbound_pod_is_removed_at_once(script: Script) -> None:
    async with script.watching(PODS, sentinel=pod()):
        await script.create(PODS, pod())
        await script.delete(PODS, "pod")
        await script.get(PODS, "pod")


async def a_bound_pod_is_removed_by_its_kubelet(script: Script) -> None:
    async with script.watching(PODS, sentinel=pod()):
        await script.create(PODS, pod(nodeName="nowhere"))
        await script.delete(PODS, "pod")
        await script.delete(PODS, "pod")
        await script.patch(PODS, "pod", {"metadata": {"labels": {"a": "b"}}})
        await script.patch(PODS, "pod", {"status": {"phase": "Running"}}, subresource="status")


async def a_pod_keeps_its_own_grace_period(script: Script) -> None:
    await script.create(PODS, pod(nodeName="nowhere", terminationGracePeriodSeconds=7))
    await script.delete(PODS, "pod")


async def an_ended_pod_is_removed_at_once(script: Script) -> None:
    async with script.watching(PODS, sentinel=pod()):
        await script.create(PODS, pod(nodeName="nowhere"))
        await script.patch(PODS, "pod", {"status": {"phase": "Succeeded"}}, subresource="status")
        await script.delete(PODS, "pod")


async def a_finalizer_blocks_the_removal_of_an_unbound_pod(script: Script) -> None:
    async with script.watching(PODS, sentinel=pod()):
        await script.create(PODS, pod(metadata={"finalizers": ["example.com/hold"]}))
        await script.delete(PODS, "pod")
        await script.delete(PODS, "pod")
        await script.patch(PODS, "pod", {"metadata": {"finalizers": []}})


async def a_finalizer_of_a_bound_pod_may_be_removed_first(script: Script) -> None:
    await script.create(PODS, pod(nodeName="nowhere", metadata={"finalizers": ["example.com/hold"]}))
    await script.delete(PODS, "pod")
    await script.patch(PODS, "pod", {"metadata": {"finalizers": []}})
    await script.get(PODS, "pod")


async def a_delete_with_a_version_is_conditional(script: Script) -> None:
    created = await script.create(PODS, pod())
    assert created is not None
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    await script.patch(PODS, "pod", {"metadata": {"labels": {"a": "b"}}})
    await script.delete(PODS, "pod", uid=uid, version=version)
    await script.delete(PODS, "pod", uid=uid)


async def an_unknown_field_is_refused_in_strict_mode(script: Script) -> None:
    typo = {**_CONTAINER, "imagePullPolice": "Always"}
    await script.create(PODS, pod(containers=[typo]), strict=True)
    await script.create(PODS, pod(nodeSelektor={"a": "b"}), strict=True)
    await script.create(PODS, pod(containers=[typo], nodeSelektor={"a": "b"}))


async def an_invalid_pod_is_refused(script: Script) -> None:
    invalid: list[dict[str, Any]] = [
        {"containers": []},
        {"containers": None},
        {"containers": [{"name": "worker"}]},
        {"containers": [{"image": "worker:1"}]},
        {"containers": [_CONTAINER, _CONTAINER]},
        {"containers": [{"name": "Worker", "image": "worker:1"}]},
        {"containers": [_CONTAINER], "restartPolicy": "Sometimes"},
        {"containers": [{**_CONTAINER, "resources": {"requests": {"memory": "much"}}}]},
        {"containers": [{**_CONTAINER, "resources": {"requests": {"memory": "-1Gi"}}}]},
        {"containers": [{**_CONTAINER, "resources": {"claims": [{"name": "gpu"}]}}]},
        {"containers": "many"},
    ]
    for spec in invalid:
        await script.create(PODS, pod(**spec))


async def limits_are_the_default_of_requests(script: Script) -> None:
    resources = {"limits": {"memory": "2Gi", "cpu": "1"}, "requests": {"cpu": "500m"}}
    await script.create(PODS, pod(containers=[{**_CONTAINER, "resources": resources}]))


async def containers_refer_to_claims_by_entry_name(script: Script) -> None:
    container = {**_CONTAINER, "resources": {"claims": [{"name": "gpu"}]}}
    entry = {"name": "gpu", "resourceClaimName": "claim-a"}
    await script.create(PODS, pod(containers=[container], resourceClaims=[entry]))


async def most_of_the_pod_spec_is_immutable(script: Script) -> None:
    await script.create(PODS, pod())
    await script.patch(PODS, "pod", {"spec": {"containers": [{"name": "worker", "image": "worker:2"}]}})
    await script.patch(PODS, "pod", {"spec": {"nodeName": "nowhere"}})
    await script.patch(PODS, "pod", {"spec": {"restartPolicy": "Never"}})
    await script.patch(PODS, "pod", {"spec": {"containers": [{"name": "other", "image": "worker:2"}]}})
