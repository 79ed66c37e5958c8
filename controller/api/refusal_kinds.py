"""The kinds of causes in a refusal of kube-scheduler, for `status.reason`.

The sentence itself has counts and names of nodes, so it changes with each attempt. Its kinds rarely do. No
decision reads them: the texts are not an API, and a text of another version is of kind `other`.
"""

from __future__ import annotations

import re
from typing import Final

_KINDS: Final = (
    ("ports", re.compile(r"free ports|host ?ports?", re.IGNORECASE)),
    ("volume", re.compile(r"volume|persistent|storage ?class", re.IGNORECASE)),
    ("memory", re.compile(r"Insufficient (memory|hugepages-\S+)", re.IGNORECASE)),
    ("cpu", re.compile(r"Insufficient cpu", re.IGNORECASE)),
    ("disk", re.compile(r"Insufficient (ephemeral-)?storage", re.IGNORECASE)),
    ("pods", re.compile(r"Too many pods|Insufficient pods", re.IGNORECASE)),
    ("taint", re.compile(r"\btaint", re.IGNORECASE)),
    ("spread", re.compile(r"topology spread", re.IGNORECASE)),
    ("affinity", re.compile(r"affinity|selector", re.IGNORECASE)),
    ("cordon", re.compile(r"\bunschedulable\b", re.IGNORECASE)),
    ("resources", re.compile(r"Insufficient \S+", re.IGNORECASE)),
)
"""In the order of the reason. A cause is of the first kind that matches."""

_DEVICES: Final = re.compile(r"cannot allocate|resource ?claim|device ?class|\bdevices?\b", re.IGNORECASE)
"""Causes that the explanation of the fleet already states."""

_LEAD: Final = re.compile(r"^\d+/\d+ nodes are available:\s*")
_PREEMPTION: Final = re.compile(r"\.?\s*preemption:.*", re.IGNORECASE | re.DOTALL)
_SEPARATOR: Final = re.compile(r",\s+(?=\d+\s)")
OTHER: Final = "other"


def refusal_kinds(message: str) -> tuple[str, ...]:
    """Return the kinds of causes in a sentence of kube-scheduler, each once, in a fixed order.

    Devices are left out. What preemption could not do repeats the causes.
    """
    causes = _SEPARATOR.split(_PREEMPTION.sub("", _LEAD.sub("", message.strip())).strip(" ."))
    found = {_kind(cause) for cause in causes if cause}
    return tuple(kind for kind in (*(kind for kind, _ in _KINDS), OTHER) if kind in found)


def _kind(cause: str) -> str:
    """Return the kind of one cause; empty for devices."""
    kind = next((kind for kind, pattern in _KINDS if pattern.search(cause)), "")
    if kind or _DEVICES.search(cause):
        return kind
    return OTHER
