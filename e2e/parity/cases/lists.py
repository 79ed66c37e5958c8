"""Lists: order, pages, selectors, versions."""

from __future__ import annotations

from e2e.parity.objects import LEDGERS, PODS, ledger, pod
from e2e.parity.script import Script


async def all_pages_show_one_revision(script: Script) -> None:
    for name in ("ledger-c", "ledger-a", "ledger-b", "ledger-d", "ledger-e"):
        await script.create(LEDGERS, ledger(name))
    token = await script.list_names(LEDGERS, limit=2)
    await script.delete(LEDGERS, "ledger-d")
    await script.create(LEDGERS, ledger("ledger-f"))
    token = await script.list_names(LEDGERS, limit=2, token=token)
    token = await script.list_names(LEDGERS, limit=2, token=token)
    script.note(f"the end: {token == ''}")
    await script.list_names(LEDGERS)


async def an_unknown_continue_token_is_refused(script: Script) -> None:
    await script.list_names(LEDGERS, limit=1, token="nonsense")


async def label_selectors(script: Script) -> None:
    for name, labels in (
        ("ledger-a", {"tier": "gold", "openrl.io/managed": "true"}),
        ("ledger-b", {"tier": "silver"}),
        ("ledger-c", {"openrl.io/managed": "false"}),
        ("ledger-d", {}),
    ):
        await script.create(LEDGERS, ledger(name, labels=labels))
    for text in (
        "openrl.io/managed=true",
        "openrl.io/managed==true",
        "openrl.io/managed!=true",
        "tier",
        "!tier",
        "tier in (gold, silver)",
        "tier notin (gold)",
        "tier=gold,openrl.io/managed",
        "tier=",
        "tier in gold",
        "=gold",
    ):
        await script.list_names(LEDGERS, labels=text)


async def field_selectors(script: Script) -> None:
    await script.create(PODS, pod("free"))
    await script.create(PODS, pod("bound", nodeName="nowhere"))
    await script.create(LEDGERS, ledger())
    for text in (
        "metadata.name=free",
        "metadata.name!=free",
        "metadata.namespace=openrl-system",
        "spec.nodeName=nowhere",
        "spec.nodeName=",
        "spec.nodeName!=",
        "status.phase=Pending",
        "status.phase!=Pending,spec.nodeName=nowhere",
        "spec.hostname=free",
    ):
        await script.list_names(PODS, fields=text)
    await script.list_names(LEDGERS, fields="metadata.name=ledger-a")
    await script.list_names(LEDGERS, fields="spec.claimName=claim-a")


async def a_future_version_is_too_large(script: Script) -> None:
    await script.list_names(LEDGERS, version="999999999999")


async def version_zero_means_any_version(script: Script) -> None:
    created = await script.create(LEDGERS, ledger())
    assert created is not None
    await script.list_names(LEDGERS, version=created["metadata"]["resourceVersion"])


async def a_version_that_is_not_a_number_is_refused(script: Script) -> None:
    await script.list_names(LEDGERS, version="nonsense")
