"""The simulated cluster: control plane, nodes, network, and the controller processes deployed on it."""
