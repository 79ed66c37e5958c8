"""How long the components of a cluster take, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Figures as seen on a control plane without load. `spread` 0.5 makes each up to half as long again."""

    scheduling_seconds: float = 0.01
    binding_seconds: float = 0.02
    pod_start_seconds: float = 0.2
    pod_stop_seconds: float = 0.2
    claim_release_seconds: float = 0.02
    garbage_seconds: float = 0.3
    orphaned_pod_seconds: float = 40.0
    spread: float = 0.0

    def draw(self, seconds: float, rng: Random) -> float:
        """One delay."""
        return seconds * (1 + rng.random() * self.spread) if self.spread else seconds
