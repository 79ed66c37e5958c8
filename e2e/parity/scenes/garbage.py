"""Garbage collection by owner references."""

from __future__ import annotations

from e2e.parity.objects import CLAIMS, LEDGERS, NODES, SLICES, WORKLOADS, claim, ledger, workload
from e2e.parity.stage import Document, Stage


def _owner(document: Document) -> Document:
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
    }


async def an_owned_object_is_deleted_with_its_owner(stage: Stage) -> None:
    owner = await stage.make(LEDGERS, ledger())
    async with stage.recording():
        await stage.make(CLAIMS, claim(ownerReferences=[_owner(owner)]))
        await stage.remove(LEDGERS, "ledger-a")
        await stage.until_gone(CLAIMS, "claim-a")


async def an_owner_is_identified_by_uid(stage: Stage) -> None:
    first = await stage.make(LEDGERS, ledger())
    async with stage.recording():
        await stage.make(CLAIMS, claim(ownerReferences=[_owner(first)]))
        await stage.remove(LEDGERS, "ledger-a")
        await stage.make(LEDGERS, ledger())
        await stage.until_gone(CLAIMS, "claim-a")


async def an_object_created_without_its_owner_is_deleted(stage: Stage) -> None:
    gone = await stage.make(LEDGERS, ledger())
    await stage.remove(LEDGERS, "ledger-a")
    async with stage.recording():
        await stage.make(CLAIMS, claim(ownerReferences=[_owner(gone)]))
        await stage.until_gone(CLAIMS, "claim-a")


async def an_object_is_kept_while_one_owner_exists(stage: Stage) -> None:
    first = await stage.make(LEDGERS, ledger())
    second = await stage.make(WORKLOADS, workload())
    async with stage.recording():
        await stage.make(CLAIMS, claim(ownerReferences=[_owner(first), _owner(second)]))
        await stage.remove(LEDGERS, "ledger-a")
        await stage.until(
            CLAIMS,
            "claim-a",
            lambda document: [o["kind"] for o in document["metadata"]["ownerReferences"]] == ["Workload"],
        )


async def the_slice_of_a_node_is_deleted_with_it(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    await stage.remove(NODES, "gpu-node-0")
    await stage.until_gone(SLICES, "gpu-node-0-gpu.nvidia.com")
