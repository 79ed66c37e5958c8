"""Virtual time for tests: `simulation.engine.virtual_loop` under the name by which tests know it."""

from simulation.engine.virtual_loop import (
    ITERATIONS_MAX,
    VIRTUAL_BACKEND,
    Deadlock,
    Livelock,
    VirtualBackend,
    VirtualLoop,
    block,
    run_virtual,
)

__all__ = [
    "ITERATIONS_MAX",
    "VIRTUAL_BACKEND",
    "Deadlock",
    "Livelock",
    "VirtualBackend",
    "VirtualLoop",
    "block",
    "run_virtual",
]
