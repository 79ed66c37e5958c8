"""The Kubernetes rules of taints and tolerations, for nodes and for devices.

Source: `Toleration.ToleratesTaint` of `k8s.io/api/core/v1`, and KEP-5055 for devices, which copied the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from placement.types import Taint, TaintEffect, Toleration

BLOCKING_EFFECTS: Final = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
"""`PreferNoSchedule` only affects scoring, and `None` is informational."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether the toleration matches the taint by effect, key and operator."""
    if toleration.effect is not None and toleration.effect is not taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.exists or toleration.value == taint.value


def blocking(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints with a blocking effect."""
    return tuple(taint for taint in taints if taint.effect in BLOCKING_EFFECTS)


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Return whether a blocking taint matches none of the tolerations."""
    return any(
        not any(tolerates(toleration, taint) for toleration in tolerations) for taint in blocking(taints)
    )
