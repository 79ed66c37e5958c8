"""Events as `v1` shows them, made of those of `events.k8s.io/v1`: the same objects under older names.

Source: `k8s.io/kubernetes/pkg/apis/events/v1`, which converts the other way round.
"""

from __future__ import annotations

from simulation.apiserver.documents import Document

_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def as_old_event(document: Document) -> Document:
    """The same Event under the names of `v1`. One that has them already is returned as it is."""
    if document.get("apiVersion") == "v1":
        return document
    renamed = {_RENAMED.get(name, name): value for name, value in document.items()}
    # Every other field is always there; kubectl sorts by these.
    times = {name: renamed.get(name) for name in ("firstTimestamp", "lastTimestamp")}
    return {**renamed, **times, "apiVersion": "v1", "source": renamed.get("source") or {}}
