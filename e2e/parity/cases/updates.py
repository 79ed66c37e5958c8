"""Updates, which replace an object."""

from __future__ import annotations

from typing import Any

from e2e.parity.objects import CLAIMS, LEASES, LEDGERS, PODS, WORKLOADS, claim, ledger, pod, workload
from e2e.parity.script import Document, Script


def _with(document: Document, **metadata: Any) -> Document:
    return {**document, "metadata": {**document["metadata"], **metadata}}


def _without(document: Document, *names: str) -> Document:
    kept = {name: value for name, value in document["metadata"].items() if name not in names}
    return {**document, "metadata": kept}


async def an_update_with_the_current_version_succeeds(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    await script.update(LEDGERS, "ledger-a", _with(created, labels={"a": "b"}))


async def an_update_with_an_older_version_is_a_conflict(script: Script) -> None:
    for resource, body in ((LEDGERS, ledger()), (PODS, pod()), (CLAIMS, claim())):
        name = body["metadata"]["name"]
        created = await script.create(resource, body)
        assert created is not None
        await script.patch(resource, name, {"metadata": {"labels": {"a": "b"}}})
        await script.update(resource, name, _with(created, labels={"c": "d"}))
        await script.get(resource, name)


async def some_kinds_refuse_an_update_without_a_version(script: Script) -> None:
    lease = {"metadata": {"name": "lease-a"}, "spec": {"holderIdentity": "me"}}
    for resource, body in (
        (LEDGERS, ledger()),
        (WORKLOADS, workload()),
        (PODS, pod()),
        (CLAIMS, claim()),
        (LEASES, lease),
    ):
        created = await script.create(resource, body)
        assert created is not None
        changed = _with(_without(created, "resourceVersion"), labels={"a": "b"})
        await script.update(resource, body["metadata"]["name"], changed)
    await script.delete(LEASES, "lease-a")


async def another_uid_is_a_conflict(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    other = "7a1c0ba4-0000-4000-8000-000000000000"
    await script.update(LEDGERS, "ledger-a", _with(created, uid=other, labels={"a": "b"}))


async def an_update_without_effect_keeps_the_version(script: Script) -> None:
    for resource, body in ((LEDGERS, ledger()), (PODS, pod()), (CLAIMS, claim()), (WORKLOADS, workload())):
        created = await script.create(resource, body)
        assert created is not None
        await script.update(resource, body["metadata"]["name"], created)


async def server_set_fields_are_kept_on_update(script: Script) -> None:
    created = await script.create(WORKLOADS, workload())
    assert created is not None
    bare = _without(created, "uid", "creationTimestamp", "generation", "managedFields")
    await script.update(WORKLOADS, "worker", _with(bare, labels={"a": "b"}))


async def clients_cannot_set_creation_and_deletion_time(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    timestamp = "2001-01-01T00:00:00Z"
    await script.update(LEDGERS, "ledger-a", _with(created, creationTimestamp=timestamp))
    await script.update(LEDGERS, "ledger-a", _with(created, deletionTimestamp=timestamp))


async def an_update_does_not_create_an_object(script: Script) -> None:
    for resource, body in ((LEDGERS, ledger(resourceVersion="7")), (PODS, pod()), (CLAIMS, claim())):
        named = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        await script.update(resource, body["metadata"]["name"], named)


async def a_body_of_another_name_is_refused(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    await script.update(LEDGERS, "ledger-a", _with(created, name="ledger-b"))
    await script.update(LEDGERS, "ledger-a", _with(created, namespace="default"))


async def the_generation_counts_changes_of_the_spec_only(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    labelled = await script.update(LEDGERS, "ledger-a", _with(created, labels={"a": "b"}))
    assert labelled is not None
    seats = [{"workload": "worker"}]
    await script.update(LEDGERS, "ledger-a", {**labelled, "spec": {**labelled["spec"], "seats": seats}})


async def a_lease_update_is_conditional(script: Script) -> None:
    body = {"metadata": {"name": "lease-a"}, "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}}
    created = await script.create(LEASES, body)
    assert created is not None
    taken = {**created, "spec": {**created["spec"], "holderIdentity": "two"}}
    await script.update(LEASES, "lease-a", taken)
    await script.update(
        LEASES, "lease-a", {**created, "spec": {**created["spec"], "holderIdentity": "three"}}
    )
    await script.delete(LEASES, "lease-a")
