"""Benchmarks of placement on a real control plane, compared with a bare writer, and of the informers.

`python -m bench` runs scenarios on `e2e.controlplane` and prints tables. `docs/performance.md` holds the
results of the last full run. A *contender* is a process that places Workloads: the controller as users run
it, or a *bare writer* that sends the same requests without any decision. One run measures both in turn,
because absolute figures change with the load of the machine.

Measurement (`scenarios`, `testbed`) and reporting (`report`) share only `samples`.
"""
