"""Helpers of the contract tests: manual changes to a simulated cluster, and reads of its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.config.flags import Settings
from informers.api import ObjectKey
from informers.queue.runner import Result
from simulation.actors.base import condition
from simulation.apiserver.documents import Document, format_time
from simulation.apiserver.interception import Request
from simulation.apiserver.kinds import CLAIMS, EVENTS, LEASES, LEDGERS, PODS, WORKLOADS, Kind
from simulation.cluster.controller_process import SETTINGS, SimulatedProcess
from simulation.cluster.simulated_cluster import SimulatedCluster
from simulation.cluster.workloads import workload

FINALIZER = "openrl.io/placement"
LIMIT_OF_ONE = SETTINGS.model_copy(update={"max_seats_per_claim": 1})
LIMIT_OF_TWO = SETTINGS.model_copy(update={"max_seats_per_claim": 2})


def settings_with(**changes: object) -> Settings:
    """Return the test settings with these changes."""
    return SETTINGS.model_copy(update=changes)


async def submit(cluster: SimulatedCluster, *names: str, **spec: Any) -> None:
    """Submit workers one by one, each after the cluster has settled, so that their ages differ."""
    for name in names:
        cluster.workloads.submit(workload(name, **spec))
        await cluster.settle()


async def submit_stuck(cluster: SimulatedCluster, *, spare: bool = False) -> None:
    """Let `worker` join the claim of `creator` on a node whose disk is too small, which no fleet shows."""
    cluster.fleet.add_nodes(1)
    cluster.fleet.set_allocatable("gpu-node-0", ephemeral_storage="1Gi")
    await submit(cluster, "creator")
    if spare:
        cluster.fleet.add_node("spare")
        await cluster.settle()
    worker = workload("worker")
    requests = worker["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    requests["ephemeral-storage"] = "10Gi"
    cluster.workloads.submit(worker)
    await cluster.wait_until(lambda: row(cluster, "worker")[2] == "Unschedulable", "no refusal")


# Reads.


def placed(cluster: SimulatedCluster, name: str) -> tuple[str, str]:
    """Return status and reason of the condition `Placed`; empty if it was never written."""
    conditions = cluster.workloads.status(name).get("conditions") or []
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == "Placed"), ("", ""))


def row(cluster: SimulatedCluster, name: str) -> tuple[str, str, str, str]:
    """Return a row of the table in contract §2.1: phase, `Placed` (status, reason), and `status.reason`."""
    status = cluster.workloads.status(name)
    return (status.get("phase", ""), *placed(cluster, name), status.get("reason", ""))


def claim_of(cluster: SimulatedCluster, name: str) -> str:
    """Return the claim that a worker's status names."""
    return str(cluster.workloads.status(name).get("claimName", ""))


def seat_of(cluster: SimulatedCluster, name: str) -> tuple[str, Document] | None:
    """Return the one seat of a worker, as (claim, seat)."""
    found = [
        (ledger["spec"]["claimName"], seat)
        for ledger in cluster.workloads.ledgers()
        for seat in ledger["spec"].get("seats") or ()
        if seat["workload"] == name
    ]
    assert len(found) <= 1, found
    return found[0] if found else None


def holdings(cluster: SimulatedCluster) -> list[str]:
    """Return all Pods, claims and ledgers by kind and name."""
    kept = [*cluster.workloads.pods(), *cluster.workloads.claims(), *cluster.workloads.ledgers()]
    return [f"{document['kind']} {document['metadata']['name']}" for document in kept]


def pod_uid(cluster: SimulatedCluster, name: str) -> str:
    """Return the UID of a worker's Pod, empty if there is none."""
    pod = cluster.workloads.pod(name)
    return "" if pod is None else str(pod["metadata"]["uid"])


def assert_sound(cluster: SimulatedCluster, name: str) -> None:
    """Assert that the seat, status and Pod of a worker name the same assignment."""
    status, pod, seat = cluster.workloads.status(name), cluster.workloads.pod(name), seat_of(cluster, name)
    assert pod is not None
    assert seat is not None
    env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
    recorded = (status["claimName"], status["assignmentID"])
    assert recorded == (seat[0], seat[1]["assignmentID"])
    assert recorded == (
        pod["spec"]["resourceClaims"][0]["resourceClaimName"],
        env["OPEN_RL_ASSIGNMENT_ID"],
    )
    assert env["OPEN_RL_TIME_SLICE_GROUP"] == status["claimName"]


def writes_of(cluster: SimulatedCluster, since: int = 0, *, client: str = "controller") -> list[str]:
    """Return the successful writes of a controller, in order, without Events and Leases."""
    return [
        write_name(entry.request)
        for entry in cluster.calls(client=client, since=since)
        if entry.error is None and entry.request.writes and entry.request.kind not in {EVENTS, LEASES}
    ]


def write_name(request: Request) -> str:
    """Return a request as `verb plural[/subresource]`."""
    sub = f"/{request.subresource}" if request.subresource else ""
    return f"{request.verb} {request.kind.plural}{sub}"


def count_calls(cluster: SimulatedCluster, verb: str, kind: Kind, *, since: int = 0, client: str = "") -> int:
    """Return the number of finished calls of a verb on a kind, including errors."""
    calls = cluster.calls(since=since, client=client)
    return sum(entry.request.verb == verb and entry.request.kind is kind for entry in calls)


def round_trip_seconds(_request: Request) -> float:
    """Return the latency within a data center, so that a loop of calls takes virtual time."""
    return 0.005


def is_waiting_for_a_kubelet(cluster: SimulatedCluster, name: str) -> bool:
    """Return whether a worker's Pod is bound, and its kubelet has neither started nor rejected it."""
    pod = cluster.workloads.pod(name)
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return False
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] == "Pending"


def audited(request: Request) -> bool:
    """Return whether a request is part of a reconcile, not of watches, leader election or Events."""
    return request.verb in {"get", "create", "patch", "update", "delete"} and request.kind not in {
        EVENTS,
        LEASES,
    }


# Manual changes.


def ledger_key(claim: str) -> ObjectKey:
    """Return the key of a claim's ledger."""
    return ObjectKey("openrl-system", "ledger-" + claim.removeprefix("claim-"))


def edit_seats(
    cluster: SimulatedCluster, claim: str, change: Callable[[list[Document]], list[Document]]
) -> None:
    """Edit the seats of a ledger manually."""

    def edit(document: Document) -> None:
        document["spec"]["seats"] = change(document["spec"].get("seats") or [])

    cluster.server.edit(LEDGERS, ledger_key(claim), edit)


def remove_seat(cluster: SimulatedCluster, claim: str, name: str) -> None:
    """Remove a seat manually."""
    edit_seats(cluster, claim, lambda seats: [seat for seat in seats if seat["workload"] != name])


def foreign_seat(name: str, *, uid: str = "another-uid", exclusive: bool = False) -> Document:
    """Return a seat as a user or another process writes it."""
    return {
        "workload": name,
        "workloadUID": uid,
        "assignmentID": f"assignment-of-{name}",
        "ownerID": name,
        "exclusive": exclusive,
        "hostRequest": "1Gi",
    }


def edit_status(cluster: SimulatedCluster, name: str, **changes: object) -> None:
    """Edit a Workload's status manually; `None` removes a field."""
    cluster.server.patch(
        WORKLOADS, name, cluster.workloads.namespace, {"status": dict(changes)}, subresource="status"
    )


def delete_pod(cluster: SimulatedCluster, name: str) -> None:
    """Delete a worker's Pod, as `kubectl delete pod` does."""
    cluster.server.delete(PODS, f"orw-{name}", cluster.workloads.namespace)


def delete_claim(cluster: SimulatedCluster, claim: str) -> None:
    """Delete a claim manually."""
    cluster.server.delete(CLAIMS, claim, cluster.workloads.namespace)


def set_unschedulable(
    cluster: SimulatedCluster, name: str, reason: str = "Unschedulable", message: str = "by hand"
) -> None:
    """Write the condition that kube-scheduler writes when it refuses a worker's Pod."""

    def change(document: Document) -> None:
        document["status"]["conditions"] = condition(
            document["status"],
            "PodScheduled",
            "False",
            timestamp=format_time(cluster.clock()),
            reason=reason,
            message=message,
        )

    cluster.server.edit(PODS, cluster.workloads.pod_key(name), change, subresource="status")


def plain_pod(
    name: str, *, memory: str = "1Gi", node: str = "", owner: Document | None = None, claim: str = ""
) -> Document:
    """Return a foreign Pod, or a worker's Pod if `owner` is its Workload; `node` binds it."""
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"memory": memory}}}
    spec: Document = {"containers": [container]}
    if node:
        spec["nodeName"] = node
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    metadata: Document = {"name": name}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"metadata": metadata, "spec": spec}


def controller_reference(name: str, uid: str) -> Document:
    """Return the controller reference of a worker's Pod."""
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


# Reconciles.


def record_reconciles(process: SimulatedProcess) -> list[str]:
    """Return a live list of the names of the Workloads reconciled from now on, in order."""
    runner, seen = process.controller.runner, list[str]()
    inner = runner._reconcile

    async def recorded(key: ObjectKey) -> Result:
        seen.append(key.name)
        return await inner(key)

    runner._reconcile = recorded
    return seen


def reconciles(process: SimulatedProcess) -> int:
    """Return the number of finished reconciles of a controller."""
    return sum(process.controller.runner.statistics().reconciles_total.values())
