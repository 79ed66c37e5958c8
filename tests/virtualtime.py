"""Virtual time for tests: `simulation.virtualtime` under the name by which tests know it."""

from simulation.virtualtime import (
    TURNS_MAX,
    VIRTUAL_BACKEND,
    Deadlock,
    Livelock,
    VirtualBackend,
    VirtualLoop,
    block,
    run_virtual,
)

__all__ = [
    "TURNS_MAX",
    "VIRTUAL_BACKEND",
    "Deadlock",
    "Livelock",
    "VirtualBackend",
    "VirtualLoop",
    "block",
    "run_virtual",
]
