"""kube-scheduler, dynamic resource allocation and the ResourceClaim controller."""

from __future__ import annotations

from typing import Any

from e2e.parity.objects import CLAIMS, DEVICE_CLASSES, DRIVER, NODES, PODS, SLICES
from e2e.parity.stage import Document, Stage


def _selector(*terms: str) -> str:
    capacity = f'device.capacity["{DRIVER}"]'
    return " && ".join(term.replace("CAPACITY", capacity) for term in terms)


_GUARD = '"memory" in CAPACITY'
_AT_LEAST = 'CAPACITY.memory.compareTo(quantity("{}")) >= 0'
_AT_MOST = 'CAPACITY.memory.compareTo(quantity("{}")) <= 0'


def claim(name: str, *shapes: tuple[int, str], device_class: str = DRIVER, guard: bool = True) -> Document:
    """Return a claim with an alternative for each (count, size), as this project's controller creates it."""
    alternatives = []
    for count, size in shapes or ((1, "80Gi"),):
        terms = [*([_GUARD] if guard else []), _AT_LEAST.format("20Gi"), _AT_MOST.format(size)]
        alternatives.append(
            {
                "name": f"t{count}x{size.removesuffix('Gi')}",
                "deviceClassName": device_class,
                "selectors": [{"cel": {"expression": _selector(*terms)}}],
                "allocationMode": "ExactCount",
                "count": count,
            }
        )
    request = {"name": "gpu", "firstAvailable": alternatives}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def pod(name: str, claim_name: str = "", *, memory: str = "1Gi", cpu: str = "100m", **spec: Any) -> Document:
    """Return a Pod, with a claim if one is named."""
    resources: Document = {"requests": {"memory": memory, "cpu": cpu}}
    entries = []
    if claim_name:
        resources["claims"] = [{"name": "gpu"}]
        entries = [{"name": "gpu", "resourceClaimName": claim_name}]
    container = {"name": "worker", "image": "worker:1", "resources": resources}
    expected = {"containers": [container], **({"resourceClaims": entries} if entries else {}), **spec}
    return {"metadata": {"name": name}, "spec": expected}


async def a_claim_is_allocated_for_its_pod(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")


async def a_freed_device_is_allocated_to_the_waiting_pod(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")
        await stage.make(CLAIMS, claim("claim-b"))
        await stage.make(PODS, pod("b", "claim-b"))
        await stage.unschedulable("b", "cannot allocate all claims")
        await stage.remove(PODS, "a")
        await stage.running("b")


async def a_claim_is_deallocated_after_its_last_pod(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        for name in ("a", "b"):
            await stage.make(PODS, pod(name, "claim-a"))
            await stage.running(name)
            # A real scheduler chooses at random between two empty nodes.
            await stage.node(f"later-{name}", "80Gi")
        for name in ("a", "b"):
            await stage.remove(PODS, name)
            await stage.until_gone(PODS, name)
        await stage.until(CLAIMS, "claim-a", lambda document: not document["metadata"].get("finalizers"))


async def an_ended_pod_releases_its_device(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")
        await stage.change(PODS, "a", {"status": {"phase": "Succeeded"}}, subresource="status")
        await stage.until(CLAIMS, "claim-a", lambda document: not document["metadata"].get("finalizers"))


async def a_deleted_claim_is_removed_after_its_pods(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")
        await stage.remove(CLAIMS, "claim-a")
        # Once the scheduler has seen a later claim, it has also seen this one's deletion.
        await stage.make(CLAIMS, claim("claim-b"))
        await stage.make(PODS, pod("b", "claim-b"))
        await stage.running("b")
        await stage.make(PODS, pod("late", "claim-a"))
        await stage.remove(PODS, "a")
        await stage.until_gone(CLAIMS, "claim-a")


async def a_pod_without_its_claim_is_not_scheduled(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.running("a")


async def the_first_free_alternative_is_allocated(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi", "24Gi", "80Gi")
    async with stage.recording():
        for name in ("a", "b", "c"):
            await stage.make(CLAIMS, claim(f"claim-{name}", (1, "24Gi"), (1, "80Gi")))
            await stage.make(PODS, pod(name, f"claim-{name}"))
            await stage.running(name)


async def several_devices_come_from_one_node(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    await stage.node("gpu-node-1", "80Gi", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a", (2, "80Gi")))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")
        await stage.make(CLAIMS, claim("claim-b", (2, "80Gi")))
        await stage.make(PODS, pod("b", "claim-b"))
        await stage.unschedulable("b", "cannot allocate all claims")


async def a_device_without_memory_is_skipped_by_the_guard(stage: Stage) -> None:
    await stage.node("gpu-node-0", None, "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")


def _slice(name: str, node: str, pool: Document, device: str) -> Document:
    devices = [{"name": device, "capacity": {"memory": {"value": "80Gi"}}}]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": name}, "spec": spec}


async def a_pool_that_lists_a_device_twice_is_skipped(stage: Stage) -> None:
    await stage.node("gpu-node-0")
    await stage.remove(SLICES, f"gpu-node-0-{DRIVER}")
    pool = {"name": "gpu-node-0", "generation": 2, "resourceSliceCount": 2}
    for number in range(2):
        await stage.make(SLICES, _slice(f"twice-{number}", "gpu-node-0", pool, "gpu-0"))
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.unschedulable("a", "0/1 nodes are available")
        await stage.change(SLICES, "twice-1", {"spec": {"devices": [{"name": "gpu-1"}]}})
        await stage.running("a")
    for number in range(2):
        await stage.remove(SLICES, f"twice-{number}")


async def devices_of_equal_pool_names_on_two_nodes_are_one_device(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")
        await stage.node("gpu-node-1")
        await stage.remove(SLICES, f"gpu-node-1-{DRIVER}")
        pool = {"name": "gpu-node-0", "generation": 1, "resourceSliceCount": 1}
        await stage.make(SLICES, _slice("equal", "gpu-node-1", pool, "gpu-0"))
        await stage.make(CLAIMS, claim("claim-b"))
        await stage.make(PODS, pod("b", "claim-b"))
        await stage.unschedulable("b", "2 cannot allocate all claims")
    await stage.remove(SLICES, "equal")


async def a_cordoned_node_is_skipped_until_it_is_uncordoned(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    await stage.node("gpu-node-1", "80Gi")
    await stage.change(NODES, "gpu-node-0", {"spec": {"unschedulable": True}})
    taint = {"key": "hands", "value": "off", "effect": "NoSchedule"}
    await stage.change(NODES, "gpu-node-1", {"spec": {"taints": [taint]}})
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.unschedulable("a", "unschedulable", "untolerated")
        await stage.change(NODES, "gpu-node-0", {"spec": {"unschedulable": None}})
        await stage.running("a")


async def a_toleration_allows_a_tainted_node(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    taint = {"key": "hands", "value": "off", "effect": "NoSchedule"}
    await stage.change(NODES, "gpu-node-0", {"spec": {"taints": [taint]}})
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a", tolerations=[{"key": "hands", "operator": "Exists"}]))
        await stage.running("a")


async def an_allocation_binds_its_pods_to_one_node(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")
        await stage.node("gpu-node-1", "80Gi")
        await stage.change(NODES, "gpu-node-0", {"spec": {"unschedulable": True}})
        await stage.make(PODS, pod("b", "claim-a"))
        await stage.unschedulable("b", "not available on the node")
        # Once no Pod uses it there, the claim is allocated on a node with free capacity.
        await stage.remove(PODS, "a")
        await stage.running("b")


async def an_allocation_on_an_unusable_node_is_released(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    await stage.node("gpu-node-1", "80Gi")
    await stage.change(NODES, "gpu-node-1", {"spec": {"unschedulable": True}})
    result = {"request": "gpu/t1x80", "driver": DRIVER, "pool": "gpu-node-1", "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-node-1"]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    await stage.make(CLAIMS, claim("claim-a"))
    await stage.change(CLAIMS, "claim-a", {"status": {"allocation": allocation}}, subresource="status")
    async with stage.recording():
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.running("a")


async def a_missing_device_class_is_reported_and_its_creation_noticed(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a", device_class="late.example.com"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.unschedulable("a", "does not exist")
        await stage.device_class("late.example.com")
        await stage.running("a")
    await stage.remove(DEVICE_CLASSES, "late.example.com")


async def host_memory_and_pod_slots_are_counted(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi", memory="8Gi", pods=2)
    async with stage.recording():
        await stage.make(PODS, pod("holder", memory="6Gi"))
        await stage.running("holder")
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a", memory="4Gi"))
        await stage.unschedulable("a", "Insufficient memory")
        await stage.make(PODS, pod("giant", memory="9Gi", cpu="9"))
        await stage.unschedulable("giant", "Insufficient memory", "Insufficient cpu")
        await stage.remove(PODS, "giant")
        await stage.until_gone(PODS, "giant")
        await stage.make(PODS, pod("small"))
        await stage.running("small")
        await stage.make(PODS, pod("third"))
        await stage.unschedulable("third", "Too many pods")
        await stage.remove(PODS, "holder")
        await stage.running("a")


async def required_node_affinity_selects_nodes(stage: Stage) -> None:
    for name in ("gpu-node-0", "gpu-node-1"):
        await stage.node(name, "80Gi")
    await stage.change(NODES, "gpu-node-1", {"metadata": {"labels": {"openrl.io/sampler": "true"}}})
    enabled = {"key": "openrl.io/enabled", "operator": "In", "values": ["true"]}
    free = [{"key": f"openrl.io/{role}", "operator": "DoesNotExist"} for role in ("trainer", "sampler")]
    trainer = {"key": "openrl.io/trainer", "operator": "In", "values": ["true"]}
    terms = [{"matchExpressions": [enabled, trainer]}, {"matchExpressions": [enabled, *free]}]
    required = {"nodeSelectorTerms": terms}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    async with stage.recording():
        for name in ("a", "b"):
            await stage.make(CLAIMS, claim(f"claim-{name}"))
            await stage.make(PODS, pod(name, f"claim-{name}", affinity=affinity))
        await stage.unschedulable("b", "affinity")
        await stage.change(NODES, "gpu-node-1", {"metadata": {"labels": {"openrl.io/trainer": "true"}}})
        await stage.running("b")


async def preferred_node_affinity_selects_a_node(stage: Stage) -> None:
    for name in ("gpu-node-0", "gpu-node-1", "gpu-node-2"):
        await stage.node(name, "80Gi")
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-node-1"]}
    term = {"weight": 100, "preference": {"matchFields": [field]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a", affinity=affinity))
        await stage.running("a")


async def without_nodes_a_pod_is_unschedulable(stage: Stage) -> None:
    await stage.device_class()
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        await stage.make(PODS, pod("a", "claim-a"))
        await stage.unschedulable("a", "no nodes available")
        await stage.node("gpu-node-0", "80Gi")
        await stage.running("a")


async def without_the_guard_a_device_without_memory_fails_scheduling(stage: Stage) -> None:
    await stage.node("gpu-node-0", None, "80Gi")
    await stage.make(CLAIMS, claim("claim-a", guard=False))
    await stage.make(PODS, pod("a", "claim-a"))
    # The message is long and names internal components, so only the reason is compared.
    await stage.until(
        PODS,
        "a",
        lambda document: any(
            condition.get("reason") == "SchedulerError"
            for condition in document["status"].get("conditions") or ()
        ),
    )


async def a_host_port_in_use_refuses_the_node(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    port = {"ports": [{"containerPort": 29500, "hostPort": 29500}]}
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        for name in ("a", "b"):
            body = pod(name, "claim-a")
            body["spec"]["containers"][0] |= port
            await stage.make(PODS, body)
            if name == "a":
                await stage.running("a")
        await stage.unschedulable("b", "free ports")


async def a_disk_that_is_too_small_refuses_the_node(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        body = pod("a", "claim-a")
        body["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = "1Gi"
        await stage.make(PODS, body)
        await stage.unschedulable("a", "ephemeral-storage")


async def pods_that_keep_apart_refuse_the_node(stage: Stage) -> None:
    await stage.node("gpu-node-0", "80Gi")
    selector = {"matchLabels": {"apart": "yes"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    async with stage.recording():
        await stage.make(CLAIMS, claim("claim-a"))
        for name in ("a", "b"):
            body = pod(name, "claim-a", affinity={"podAntiAffinity": required})
            body["metadata"]["labels"] = {"apart": "yes"}
            await stage.make(PODS, body)
            if name == "a":
                await stage.running("a")
        await stage.unschedulable("b", "anti-affinity")
