"""A Kubernetes cluster in memory, on virtual time, in which the whole controller runs.

`simulation.apiserver` is the API server. `simulation.actors` has the components that share it with the
controller: scheduler, kubelets, garbage collection. `simulation.cluster.simulated_cluster` composes them. A
list of cases compares the server with a real one (`e2e.parity`). A run uses no real clock, environment,
network or global randomness, so two runs with the same seed are identical.
"""
