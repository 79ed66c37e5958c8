"""Virtual time for tests: re-exports `simulation.engine.virtual_loop`."""

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
