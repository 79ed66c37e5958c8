"""One list of scripted cases and scenes for two control planes: the real one and the one in memory.

They speak to whatever they are given through the client port, and what they hear is written down without what
differs between any two runs (versions, UIDs, times). `cases.yaml` and `scenes.yaml` hold what a real control
plane said and did; the simulated one must do the same, and so must the next real one.

    python -m e2e.parity      # record both anew from a real control plane
"""
