"""One list of scripted cases for two API servers: the real one and the one in memory.

A case speaks to whatever it is given through the client port, and what it hears is written down without what
differs between any two runs (versions, UIDs, times). `transcripts.yaml` holds what a real server said; the
server in memory must say the same, and so must the next real one.

    python -m e2e.parity      # record the transcripts anew from a real control plane
"""
