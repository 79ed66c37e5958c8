"""`make demo CLUSTER=local`: the story of `simulation.demo`, played on a real control plane.

`stage` sets up what it needs and takes it down again, `cli` is the edge of the process; everything that is
seen is `simulation.demo`'s.
"""
