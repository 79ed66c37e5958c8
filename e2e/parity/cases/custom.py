"""The custom resources of this project."""

from __future__ import annotations

from typing import Any

from e2e.parity.objects import LEDGERS, WORKLOADS, ledger, workload
from e2e.parity.script import Script

_CONTAINERS = [{"name": "worker", "image": "worker:1"}]


async def defaults_are_set(script: Script) -> None:
    await script.create(WORKLOADS, workload())
    given: dict[str, Any] = {"exclusive": False, "ownerID": "me", "trainingKind": "fft"}
    given["workerContainerName"] = "main"
    accelerator = {"memory": "60Gi", "mode": "MultiGPU", "devices": 2}
    await script.create(WORKLOADS, workload("other", accelerator=accelerator, **given))


async def invalid_workloads_are_refused(script: Script) -> None:
    invalid: list[dict[str, Any]] = [
        {"role": None},
        {"role": "dancer"},
        {"modelID": None},
        {"accelerator": None},
        {"accelerator": {}},
        {"accelerator": {"memory": "20Gi", "mode": "ManyGPU"}},
        {"accelerator": {"memory": "20Gi", "mode": "MultiGPU"}},
        {"accelerator": {"memory": "20Gi", "mode": "MultiGPU", "devices": 1}},
        {"accelerator": {"memory": "20Gi", "devices": 2}},
        {"accelerator": {"memory": 60}},
        {"accelerator": {"memory": "60"}},
        {"accelerator": {"memory": "60000m"}},
        {"accelerator": {"memory": "1023Ki", "unknown": 1}},
        {"accelerator": {"memory": 1048575, "mode": "MultiGPU", "devices": 2}},
        {"trainingKind": "guess"},
        {"template": None},
        {"template": {}},
        {"template": {"spec": {}}},
        {"template": {"spec": {"containers": _CONTAINERS, "nodeName": "here"}}},
        {"template": {"spec": {"containers": _CONTAINERS, "nodeSelector": {"a": "b"}}}},
        {"template": {"spec": {"containers": _CONTAINERS, "affinity": {}}}},
        {"template": {"spec": {"containers": _CONTAINERS, "resourceClaims": []}}},
    ]
    for spec in invalid:
        await script.create(WORKLOADS, workload(**spec))


async def memory_between_zero_and_one_mebibyte_is_refused(script: Script) -> None:
    for number, memory in enumerate(("1Mi", 1048576, "1M", "1.5e9", "8E", "1e30", "0", 0, "-60", "")):
        await script.create(WORKLOADS, workload(f"worker-{number}", accelerator={"memory": memory}))


async def unknown_fields_are_pruned_or_refused_or_kept(script: Script) -> None:
    await script.create(WORKLOADS, workload(unknown=1), strict=True)
    await script.create(WORKLOADS, workload(unknown=1))
    template = {"spec": {"containers": _CONTAINERS, "unknown": {"kept": True}}, "unknown": 1}
    accelerator = {"memory": "20Gi", "unknown": 1}
    await script.create(WORKLOADS, workload("other", template=template, accelerator=accelerator), strict=True)


async def the_spec_is_immutable_except_for_template_labels(script: Script) -> None:
    await script.create(WORKLOADS, workload())
    for spec in (
        {"role": "sampler"},
        {"modelID": "other"},
        {"ownerID": "me"},
        {"exclusive": False},
        {"accelerator": {"memory": "30Gi"}},
        {"template": {"spec": {"hostname": "here"}}},
        {"template": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}},
        {"template": {"metadata": None}},
    ):
        await script.patch(WORKLOADS, "worker", {"spec": spec})


async def a_ledger_keeps_unknown_fields(script: Script) -> None:
    body = ledger()
    body["spec"] |= {"unknown": {"kept": True}, "seats": [{"workload": "x", "unknown": 1}]}
    await script.create(LEDGERS, {**body, "top": 1})
    await script.patch(LEDGERS, "ledger-a", {"spec": {"seats": [{"workload": "x", "exclusive": True}]}})


async def invalid_ledgers_are_refused(script: Script) -> None:
    for spec in (
        None,
        {},
        {"claimName": "claim-a", "seats": [{}]},
        {"claimName": "claim-a", "seats": [{"workload": "x"}, {"workload": "x"}]},
        {"claimName": "claim-a", "seats": {"workload": "x"}},
        {"claimName": 7},
        "nothing",
    ):
        await script.create(LEDGERS, {"metadata": {"name": "ledger-a"}, "spec": spec})
