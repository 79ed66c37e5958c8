"""The table row of a Pod, and durations in kubectl's format.

Source: `printPod` of `pkg/printers/internalversion` of `k8s.io/kubernetes`, `HumanDuration` of
`k8s.io/apimachinery`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from simulation.apiserver.documents import Document

NONE = "<none>"

_FINAL = ("Succeeded", "Failed")


def pod_cells(document: Document, now: datetime) -> list[Any]:
    """Return name, ready, status, restarts, age; wide: IP, node, nominated node, readiness gates."""
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
    word = next(_container_reasons(status), word)
    if word == "Completed" and _is_running(status):
        word = (
            "Running"
            if any(item["status"] == "True" for item in _conditions(status, "Ready"))
            else "NotReady"
        )
    if "deletionTimestamp" in document["metadata"] and phase not in _FINAL:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def _container_reasons(status: Document) -> Iterator[str]:
    """Yield the reasons of container states, the most important first. Real servers let the first one win."""
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


UNKNOWN = "<unknown>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(timestamp: str | None, now: datetime) -> str:
    """Return the time since an RFC 3339 timestamp, or `UNKNOWN` if it is missing or invalid."""
    try:
        return human_duration(now - datetime.fromisoformat(timestamp or ""))
    except ValueError:
        return UNKNOWN


def human_duration(span: timedelta) -> str:
    """Format a duration with two or three significant digits: `45s`, `3m20s`, `6h5m`, `4d`."""
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(0, seconds)}s"
    if seconds < 3 * _HOUR:
        return _in_units(seconds, _MINUTE, "m", 1, "s", alone_from=10)
    if seconds < 2 * _DAY:
        return _in_units(seconds, _HOUR, "h", _MINUTE, "m", alone_from=8)
    if seconds < 2 * _YEAR:
        return _in_units(seconds, _DAY, "d", _HOUR, "h", alone_from=8)
    return _in_units(seconds, _YEAR, "y", _DAY, "d", alone_from=8)


def _in_units(seconds: int, unit: int, name: str, part: int, part_name: str, *, alone_from: int) -> str:
    whole, rest = divmod(seconds, unit)
    parts = rest // part
    return f"{whole}{name}" if whole >= alone_from or not parts else f"{whole}{name}{parts}{part_name}"
