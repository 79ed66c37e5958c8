"""The row of an Event. Those of `events.k8s.io` are read in the older form, too: it has the same content."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from simulation.apiserver.documents import Document
from simulation.embedded.oldevents import as_old_event
from simulation.embedded.printing.ages import UNKNOWN, age

EVENT_COLUMNS = "Last_Seen Type Reason Object +Subobject +Source Message +First_Seen +Count +Name"


def event_cells(document: Document, now: datetime) -> list[Any]:
    """The cells, in the order of `EVENT_COLUMNS`."""
    event = as_old_event(document)
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
