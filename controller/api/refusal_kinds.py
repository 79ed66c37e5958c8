"""The kinds of causes in a refusal of kube-scheduler, for `status.reason`.

The sentence itself changes with each attempt: kube-scheduler counts the nodes, and names one cause for each.
The kinds of causes that the explanation of the fleet states would change as well, so they are left out. No
decision reads the kinds: the texts are not an API, and a text of another version is of kind `other`.
"""

from __future__ import annotations

import re
from typing import Final

_KINDS: Final = (
    ("ports", re.compile(r"free ports|host ?ports?", re.IGNORECASE)),
    ("volume", re.compile(r"volume|persistent|storage ?class", re.IGNORECASE)),
    ("hugepages", re.compile(r"Insufficient hugepages-\S+", re.IGNORECASE)),
    ("disk", re.compile(r"Insufficient (ephemeral-)?storage", re.IGNORECASE)),
    ("spread", re.compile(r"topology spread", re.IGNORECASE)),
    ("affinity", re.compile(r"affinity", re.IGNORECASE)),
    ("resources", re.compile(r"Insufficient \S+", re.IGNORECASE)),
)
"""In the order of the reason. A cause is of the first kind that matches."""

_EXPLAINED: Final = re.compile(
    r"cannot allocate|resource ?claim|device ?class|\bdevices?\b|Insufficient (memory|cpu|pods)\b"
    r"|Too many pods|\btaint|(?<!volume )node affinity|\bunschedulable\b",
    re.IGNORECASE,
)
"""Causes that the explanation of the fleet already states."""

_LEAD: Final = re.compile(r"^\d+/\d+ nodes are available:\s*")
_PREEMPTION: Final = re.compile(r"\.?\s*preemption:.*", re.IGNORECASE | re.DOTALL)
_SEPARATOR: Final = re.compile(r",\s+(?=\d+\s)")
OTHER: Final = "other"


def refusal_kinds(message: str) -> tuple[str, ...]:
    """Return the kinds of causes in a sentence of kube-scheduler, each once, in a fixed order.

    Causes that the fleet shows are left out: devices, host resources, taints, node labels. What preemption
    could not do repeats the causes.
    """
    causes = _SEPARATOR.split(_PREEMPTION.sub("", _LEAD.sub("", message.strip())).strip(" ."))
    found = {_kind(cause) for cause in causes if cause}
    return tuple(kind for kind in (*(kind for kind, _ in _KINDS), OTHER) if kind in found)


def _kind(cause: str) -> str:
    """Return the kind of one cause; empty for one that the fleet shows."""
    if _EXPLAINED.search(cause):
        return ""
    return next((kind for kind, pattern in _KINDS if pattern.search(cause)), OTHER)
