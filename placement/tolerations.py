"""Which taints keep a Pod, or a claim, away: the Kubernetes rules in one place, for nodes and devices alike.

Source: `Toleration.ToleratesTaint` of `k8s.io/api/core/v1`, and KEP-5055 for devices, which copied the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from placement.types import Taint, TaintEffect, Toleration

BLOCKING_EFFECTS: Final = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
"""The effects that rule a place out. `PreferNoSchedule` is only a score, `None` only information."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether this toleration covers this taint: effect, then key, then the operator."""
    if toleration.effect is not None and toleration.effect is not taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.exists or toleration.value == taint.value


def blocking(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that keep away whatever does not tolerate them."""
    return tuple(taint for taint in taints if taint.effect in BLOCKING_EFFECTS)


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Whether one of the taints blocks and no toleration covers it."""
    return any(
        not any(tolerates(toleration, taint) for toleration in tolerations) for taint in blocking(taints)
    )
