"""A guided demonstration of the controller: `open-rl-scheduler demo`.

Pure modules: `mix` chooses the Workloads, `cluster_view` turns API objects into rows, `history` and `handoff`
measure, `summary` words the results. `story` runs the steps of the demo against an API server, `screen`
renders them, and `runner` runs a story until it ends or is interrupted. A `stage` is a cluster with a
controller: `embedded` runs one in this process, `e2e.demo` on a real control plane. `cli` is the command
line.
"""
