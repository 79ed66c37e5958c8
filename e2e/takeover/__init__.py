"""Clusters as an earlier controller of the same contract leaves them, to be taken over.

A case is one YAML file in `fixtures`: the objects as `kubectl get -o yaml` would show them, and what must
have become of them once today's controller has come to rest. `case` reads and lays them down, `comparing`
looks for what changed and should not have. Neither knows which API server it works on: real and simulated
ones use the same cases.
"""
