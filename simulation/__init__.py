"""A Kubernetes cluster in memory, on virtual time, for the whole controller to run in.

`simulation.apiserver` is the API server, `simulation.actors` are the components that share it with the
controller (scheduler, kubelets, garbage collection), and `simulation.cluster.simulated` composes them. What
the server does is checked against a real one by one list of cases (`e2e.parity`). Nothing here reads a real
clock, the environment, the network or global randomness: two runs with the same seed are the same run.
"""
