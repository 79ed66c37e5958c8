"""Admission: what a cluster's owner refuses and changes, and dry runs."""

from __future__ import annotations

from e2e.parity.objects import PODS, pod
from e2e.parity.script import Script


async def a_policy_denies_with_the_code_of_its_reason(script: Script) -> None:
    for reason in ("Invalid", "Forbidden", "RequestEntityTooLarge"):
        async with script.owner.denying_policy(reason):
            await script.refused(PODS, pod())
            await script.refused(PODS, pod(), dry_run=True)
    await script.create(PODS, pod())


async def a_webhook_that_does_not_respond_fails_the_creation(script: Script) -> None:
    async with script.owner.failing_webhook():
        await script.refused(PODS, pod())
        await script.refused(PODS, pod(), dry_run=True)
    await script.create(PODS, pod())


async def a_field_error_wins_over_a_policy(script: Script) -> None:
    async with script.owner.denying_policy("Invalid"):
        await script.create(PODS, pod(restartPolicy="Sometimes"))


async def a_policy_wins_over_a_name_in_use(script: Script) -> None:
    await script.create(PODS, pod())
    async with script.owner.denying_policy("Invalid"):
        await script.refused(PODS, pod())


async def a_full_quota_refuses_dry_runs_too(script: Script) -> None:
    async with script.owner.quota(pods=1):
        await script.dry_run(PODS, pod("other"))
        await script.create(PODS, pod())
        await script.refused(PODS, pod("second"))
        await script.refused(PODS, pod("second"), dry_run=True)


async def a_limit_range_gives_containers_their_requests(script: Script) -> None:
    container = {"name": "worker", "image": "worker:1", "resources": {"requests": {"memory": "1Gi"}}}
    async with script.owner.default_memory("2Gi"):
        await script.create(PODS, pod("silent"))
        await script.create(PODS, pod("explicit", containers=[container]))


async def a_dry_run_stores_nothing(script: Script) -> None:
    await script.dry_run(PODS, pod())
    await script.get(PODS, "pod")
    await script.refused(PODS, pod(restartPolicy="Sometimes"), dry_run=True, words=False)
    await script.create(PODS, pod())
    await script.refused(PODS, pod(), dry_run=True)


async def a_gated_pod_has_a_condition_until_its_gates_are_removed(script: Script) -> None:
    created = await script.create(PODS, pod(schedulingGates=[{"name": "example.com/hold"}]))
    assert created is not None
    for condition in created["status"]["conditions"]:
        known = condition["lastTransitionTime"] == created["metadata"]["creationTimestamp"]
        script.note(f"{condition['type']} {condition['status']} since its creation: {known}")
        script.note(f"{condition['reason']}: {condition['message']}")
    await script.patch(PODS, "pod", {"spec": {"schedulingGates": [{"name": "example.com/other"}]}})
    await script.patch(PODS, "pod", {"spec": {"schedulingGates": None}})
