"""Replacing objects."""

from __future__ import annotations

from typing import Any

from e2e.parity.objects import CLAIMS, LEASES, LEDGERS, PODS, WORKLOADS, claim, ledger, pod, workload
from e2e.parity.script import Document, Script


def _with(document: Document, **metadata: Any) -> Document:
    return {**document, "metadata": {**document["metadata"], **metadata}}


def _without(document: Document, *names: str) -> Document:
    kept = {name: value for name, value in document["metadata"].items() if name not in names}
    return {**document, "metadata": kept}


async def on_the_current_version_it_is_written(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    await script.update(LEDGERS, "ledger-a", _with(created, labels={"a": "b"}))


async def on_an_older_version_it_is_a_conflict(script: Script) -> None:
    for thing, body in ((LEDGERS, ledger()), (PODS, pod()), (CLAIMS, claim())):
        name = body["metadata"]["name"]
        created = await script.create(thing, body)
        assert created is not None
        await script.patch(thing, name, {"metadata": {"labels": {"a": "b"}}})
        await script.update(thing, name, _with(created, labels={"c": "d"}))
        await script.get(thing, name)


async def without_a_version_some_kinds_refuse_it(script: Script) -> None:
    lease = {"metadata": {"name": "lease-a"}, "spec": {"holderIdentity": "me"}}
    for thing, body in (
        (LEDGERS, ledger()),
        (WORKLOADS, workload()),
        (PODS, pod()),
        (CLAIMS, claim()),
        (LEASES, lease),
    ):
        created = await script.create(thing, body)
        assert created is not None
        changed = _with(_without(created, "resourceVersion"), labels={"a": "b"})
        await script.update(thing, body["metadata"]["name"], changed)
    await script.delete(LEASES, "lease-a")


async def another_uid_is_a_conflict(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    other = "7a1c0ba4-0000-4000-8000-000000000000"
    await script.update(LEDGERS, "ledger-a", _with(created, uid=other, labels={"a": "b"}))


async def the_same_content_keeps_the_version(script: Script) -> None:
    for thing, body in ((LEDGERS, ledger()), (PODS, pod()), (CLAIMS, claim()), (WORKLOADS, workload())):
        created = await script.create(thing, body)
        assert created is not None
        await script.update(thing, body["metadata"]["name"], created)


async def what_the_server_sets_is_completed(script: Script) -> None:
    created = await script.create(WORKLOADS, workload())
    assert created is not None
    bare = _without(created, "uid", "creationTimestamp", "generation", "managedFields")
    await script.update(WORKLOADS, "worker", _with(bare, labels={"a": "b"}))


async def the_creation_time_and_deletion_are_not_for_clients(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    moment = "2001-01-01T00:00:00Z"
    await script.update(LEDGERS, "ledger-a", _with(created, creationTimestamp=moment))
    await script.update(LEDGERS, "ledger-a", _with(created, deletionTimestamp=moment))


async def what_is_absent_is_not_created(script: Script) -> None:
    for thing, body in ((LEDGERS, ledger(resourceVersion="7")), (PODS, pod()), (CLAIMS, claim())):
        named = {"apiVersion": thing.api_version, "kind": thing.kind, **body}
        await script.update(thing, body["metadata"]["name"], named)


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


async def a_lease_is_taken_over_on_its_version(script: Script) -> None:
    body = {"metadata": {"name": "lease-a"}, "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}}
    created = await script.create(LEASES, body)
    assert created is not None
    taken = {**created, "spec": {**created["spec"], "holderIdentity": "two"}}
    await script.update(LEASES, "lease-a", taken)
    await script.update(
        LEASES, "lease-a", {**created, "spec": {**created["spec"], "holderIdentity": "three"}}
    )
    await script.delete(LEASES, "lease-a")
