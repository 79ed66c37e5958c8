"""The row of a Pod: one word for what its containers are up to.

Source: `printPod` of `pkg/printers/internalversion` of `k8s.io/kubernetes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from simulation.apiserver.documents import Document
from simulation.embedded.printing.ages import age

NONE = "<none>"

_FINAL = ("Succeeded", "Failed")


def pod_cells(document: Document, now: datetime) -> list[Any]:
    """Name, ready, status, restarts, age; wide: address, node, nominated node, readiness gates."""
    metadata, spec, status = document["metadata"], document["spec"], document.get("status") or {}
    states = status.get("containerStatuses") or ()
    ready = sum(1 for state in states if state.get("ready") and "running" in (state.get("state") or {}))
    addresses = status.get("podIPs") or ()
    return [
        metadata["name"],
        f"{ready}/{len(spec.get('containers') or ())}",
        _status(document),
        str(sum(int(state.get("restartCount", 0)) for state in states)),
        age(metadata.get("creationTimestamp"), now),
        addresses[0]["ip"] if addresses else NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _status(document: Document) -> str:
    status = document.get("status") or {}
    phase = status.get("phase", "")
    word = status.get("reason") or phase
    if any(item.get("reason") == "SchedulingGated" for item in _conditions(status, "PodScheduled")):
        word = "SchedulingGated"
    word = next(_container_words(status), word)
    if word == "Completed" and _is_running(status):
        word = (
            "Running"
            if any(item["status"] == "True" for item in _conditions(status, "Ready"))
            else "NotReady"
        )
    if "deletionTimestamp" in document["metadata"] and phase not in _FINAL:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def _container_words(status: Document) -> Iterator[str]:
    """What the containers say, the most telling first: real servers look at the first one last."""
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            yield str(waiting["reason"])
        elif ended is not None and ended.get("reason"):
            yield str(ended["reason"])
        elif ended is not None:
            signal = ended.get("signal")
            yield f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"


def _is_running(status: Document) -> bool:
    states = status.get("containerStatuses") or ()
    return any(state.get("ready") and "running" in (state.get("state") or {}) for state in states)


def _conditions(status: Document, type_: str) -> list[Document]:
    return [item for item in status.get("conditions") or () if item.get("type") == type_]


def _gates(spec: Document, status: Document) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    types = [gate.get("conditionType", "") for gate in gates]
    true = [t for t in types if any(item["status"] == "True" for item in _conditions(status, t))]
    return f"{len(true)}/{len(gates)}"
