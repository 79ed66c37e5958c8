"""What a run must end in, worked out from what users did: the same end as without a single fault.

That is what contract §8.10 promises.

Which worker gets which of too few devices depends on the order of things, so that only some of it is defined:
which Workloads exist, that none is in between, and that all run where there is a device for everybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simulation.cluster.simulated import SimulatedCluster

SETTLED = ("Pending", "Running", "Succeeded", "Failed")


def end_faults(cluster: SimulatedCluster, expected: Mapping[str, str], *, all_run: bool) -> Iterator[str]:
    """One sentence for everything that is not as it must be.

    `expected` are the Workloads that users want to be there, as UIDs by name. With `all_run` no worker may
    wait.
    """
    found = {name: cluster.workloads.get(name) for name in cluster.workloads.statuses()}
    for name in sorted(found.keys() | expected.keys()):
        workload = found.get(name)
        if workload is None:
            yield f"Workload {name} is gone, and nobody deleted it"
            continue
        if "deletionTimestamp" in workload["metadata"]:
            yield f"Workload {name} is still being deleted"
        elif expected.get(name) != workload["metadata"]["uid"]:
            yield f"Workload {name} is there, and nobody wants it"
        phase = (workload.get("status") or {}).get("phase")
        if phase not in SETTLED:
            yield f"Workload {name} is {phase or 'without a phase'} in the end"
        elif phase == "Running":
            yield from _pod_faults(cluster, name)
        elif phase == "Pending" and all_run:
            yield f"Workload {name} waits in the end, and there is a device for everybody"


def _pod_faults(cluster: SimulatedCluster, name: str) -> Iterator[str]:
    pod = cluster.workloads.pod(name)
    if pod is None:
        yield f"Workload {name} is said to run and has no Pod"
    elif pod["status"].get("phase") != "Running":
        yield f"Workload {name} is said to run and its Pod is {pod['status'].get('phase')}"
