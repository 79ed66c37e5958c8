"""One list of cases and scenes for two control planes, a real one and the in-memory one.

They use the client port only. Their transcripts leave out what differs between any two runs (versions, UIDs,
times). `cases.yaml` and `scenes.yaml` hold the transcripts of a real control plane. The simulated control
plane must give the same ones, and so must the next real one.

   python -m e2e.parity      # record both again from a real control plane
"""
