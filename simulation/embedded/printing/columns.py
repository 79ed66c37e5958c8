"""The columns of each kind: custom kinds use their definitions' printer columns, others the built-in ones.

Events of `events.k8s.io` are printed in their `v1` form, which has the same content.

Source: `pkg/printers/internalversion` of `k8s.io/kubernetes` for the built-in kinds, the table converter of
`k8s.io/apiextensions-apiserver` for custom ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from simulation.apiserver import kinds
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.embedded.printing.jsonpath import compile_path
from simulation.embedded.printing.pods import UNKNOWN, age, pod_cells
from simulation.embedded.served import CORE_EVENTS, as_core_event, definition

NONE = "<none>"

Cells = Callable[[Document, datetime], list[Any]]


@dataclass(frozen=True)
class Layout:
    """The columns of a kind as a Table declares them, and the function that returns an object's cells."""

    columns: tuple[Document, ...]
    cells: Cells


@cache
def layout_of(kind: Kind) -> Layout:
    """Return the layout of a kind."""
    if kind.custom:
        return _custom(kind)
    names, cells = _BUILT_IN.get(kind, ("Name Age", _plain))
    return Layout(tuple(_column(name.replace("_", " ")) for name in names.split()), cells)


def _column(name: str, type_: str = "string", description: str = "", priority: int | None = None) -> Document:
    wide = name.startswith("+")
    name = name.removeprefix("+")
    return {
        "name": name,
        "type": type_,
        "format": "name" if name == "Name" else "",
        "description": description,
        "priority": (1 if wide else 0) if priority is None else priority,
    }


# Custom kinds.


def _custom(kind: Kind) -> Layout:
    given = definition(kind)["spec"]["versions"][0].get("additionalPrinterColumns") or ()
    columns = [_column("Name")]
    finders: list[Callable[[Document, datetime], Any]] = []
    for item in given:
        columns.append(
            _column(item["name"], item["type"], item.get("description", ""), item.get("priority", 0))
        )
        finders.append(_custom_cell(item))

    def cells(document: Document, now: datetime) -> list[Any]:
        return [document["metadata"]["name"], *(find(document, now) for find in finders)]

    return Layout(tuple(columns), cells)


def _custom_cell(item: Mapping[str, Any]) -> Callable[[Document, datetime], Any]:
    find = compile_path(item["jsonPath"])
    type_ = item["type"]

    def cell(document: Document, now: datetime) -> Any:
        value = find(document)
        if value is None:
            return None
        if type_ == "date":
            return age(str(value), now)
        if type_ == "string" and not isinstance(value, str):
            return str(value)
        return value

    return cell


# Built-in kinds.


def _plain(document: Document, now: datetime) -> list[Any]:
    return [document["metadata"]["name"], _age(document, now)]


def _age(document: Document, now: datetime) -> str:
    return age(document["metadata"].get("creationTimestamp"), now)


def _namespace_cells(document: Document, now: datetime) -> list[Any]:
    phase = (document.get("status") or {}).get("phase", "Active")
    return [document["metadata"]["name"], phase, _age(document, now)]


def _lease_cells(document: Document, now: datetime) -> list[Any]:
    holder = (document.get("spec") or {}).get("holderIdentity", "")
    return [document["metadata"]["name"], holder, _age(document, now)]


def _claim_cells(document: Document, now: datetime) -> list[Any]:
    status = document.get("status") or {}
    deleted = "deletionTimestamp" in document["metadata"]
    states = ["deleted"] if deleted else []
    if status.get("allocation"):
        states.append("allocated")
    elif not deleted:
        states.append("pending")
    if status.get("reservedFor"):
        states.append("reserved")
    return [document["metadata"]["name"], ",".join(states), _age(document, now)]


def _slice_cells(document: Document, now: datetime) -> list[Any]:
    spec = document["spec"]
    pool = (spec.get("pool") or {}).get("name", "")
    name = document["metadata"]["name"]
    return [name, spec.get("nodeName", ""), spec.get("driver", ""), pool, _age(document, now)]


_ROLE = "node-role.kubernetes.io/"


def _node_cells(document: Document, now: datetime) -> list[Any]:
    metadata, status = document["metadata"], document.get("status") or {}
    roles = [name.removeprefix(_ROLE) for name in metadata.get("labels") or () if name.startswith(_ROLE)]
    info = status.get("nodeInfo") or {}
    addresses = {item.get("type"): item.get("address") for item in status.get("addresses") or ()}
    return [
        metadata["name"],
        _node_status(document),
        ",".join(sorted(roles)) or NONE,
        _age(document, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(document: Document) -> str:
    conditions = (document.get("status") or {}).get("conditions") or ()
    ready = next((item.get("status") for item in conditions if item.get("type") == "Ready"), None)
    states = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if (document.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


EVENT_COLUMNS = "Last_Seen Type Reason Object +Subobject +Source Message +First_Seen +Count +Name"


def event_cells(document: Document, now: datetime) -> list[Any]:
    """Return the cells in the order of `EVENT_COLUMNS`."""
    event = as_core_event(document)
    series = event.get("series") or {}
    first = age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = age(event.get("lastTimestamp"), now)
    if series:
        last = age(series.get("lastObservedTime"), now)
    about = event.get("involvedObject") or {}
    kind = str(about.get("kind", "")).lower()
    return [
        first if last == UNKNOWN else last,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        _source(event),
        str(event.get("message", "")).strip(),
        first,
        series.get("count") or event.get("count") or 1,
        event["metadata"]["name"],
    ]


def _source(event: Document) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent", "")
    instance = source.get("host") or event.get("reportingInstance", "")
    return ", ".join(part for part in (component, instance) if part)


_WIDE_NODE_COLUMNS = "+Internal-IP +External-IP +OS-Image +Kernel-Version +Container-Runtime"

_BUILT_IN: Mapping[Kind, tuple[str, Cells]] = {
    kinds.NAMESPACES: ("Name Status Age", _namespace_cells),
    kinds.NODES: (
        f"Name Status Roles Age Version {_WIDE_NODE_COLUMNS}",
        _node_cells,
    ),
    kinds.PODS: (
        "Name Ready Status Restarts Age +IP +Node +Nominated_Node +Readiness_Gates",
        pod_cells,
    ),
    kinds.LEASES: ("Name Holder Age", _lease_cells),
    kinds.CLAIMS: ("Name State Age", _claim_cells),
    kinds.SLICES: ("Name Node Driver Pool Age", _slice_cells),
    kinds.EVENTS: (EVENT_COLUMNS, event_cells),
    CORE_EVENTS: (EVENT_COLUMNS, event_cells),
}
"""Column names. A plus marks columns of `-o wide` only; an underscore stands for a space."""
