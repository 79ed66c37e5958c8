"""`make demo CLUSTER=local`: the story of `simulation.demo` on a real control plane.

`stage` starts and stops the control plane and the controller; `cli` is the command line.
"""
