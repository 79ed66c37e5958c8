"""What placement costs, measured on a real control plane next to a writer with nothing behind it.

`python -m bench` runs scenarios on `e2e.controlplane` and prints tables; `docs/performance.md` holds the
last full run. A *contender* is a process that places Workloads: the controller as users run it, or a
*bare writer* that sends the same requests and decides nothing. Both run in turn in one run, because
absolute figures move with the machine from minute to minute.

Measuring (`scenarios`, `stage`) and reporting (`report`) meet only in `samples`.
"""
