"""The end state of a run, derived from the users' actions: the same as without faults (contract §8.10).

Event order decides which workers get scarce devices, so the end state is defined only in part: which
Workloads exist, that each is in a settled phase, and that all run where each has a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simulation.cluster.simulated_cluster import SimulatedCluster

HIDDEN_NEED = "example.com/hidden-need"
"""The label of Pods whose needs a fault has changed."""

SETTLED = ("Pending", "Running", "Succeeded", "Failed")


def end_state_violations(
    cluster: SimulatedCluster, expected: Mapping[str, str], *, all_run: bool
) -> Iterator[str]:
    """Yield one sentence per difference from the expected end state (contract §8.10).

    `expected` maps the names of the Workloads that must exist to their UIDs. With `all_run`, no worker may
    wait.
    """
    actual = {name: cluster.workloads.get(name) for name in cluster.workloads.statuses()}
    for name in sorted(actual.keys() | expected.keys()):
        workload = actual.get(name)
        if workload is None:
            yield f"Workload {name} does not exist although nobody deleted it"
            continue
        if "deletionTimestamp" in workload["metadata"]:
            yield f"Workload {name} is still being deleted"
        elif expected.get(name) != workload["metadata"]["uid"]:
            yield f"Workload {name} exists although users deleted it"
        phase = (workload.get("status") or {}).get("phase")
        if phase not in SETTLED:
            yield f"Workload {name} ends {f'in phase {phase}' if phase else 'without a phase'}"
        elif phase == "Running":
            yield from _pod_violations(cluster, name)
        elif phase == "Pending" and all_run and not _has_hidden_need(cluster, name):
            yield f"Workload {name} waits although there is a device for every worker"


def _has_hidden_need(cluster: SimulatedCluster, name: str) -> bool:
    """Return whether a fault gave the worker's Pod a need that may leave it without a node."""
    pod = cluster.workloads.pod(name)
    return pod is not None and HIDDEN_NEED in (pod["metadata"].get("labels") or {})


def _pod_violations(cluster: SimulatedCluster, name: str) -> Iterator[str]:
    pod = cluster.workloads.pod(name)
    if pod is None:
        yield f"Workload {name} is Running and has no Pod"
    elif pod["status"].get("phase") != "Running":
        yield f"Workload {name} is Running and its Pod is {pod['status'].get('phase')}"
