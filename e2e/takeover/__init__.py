"""Clusters as an earlier controller of the same contract leaves them, for the tests of a takeover.

A case is one YAML file in `fixtures`: the objects in the form of `kubectl get -o yaml`, and the expected
result once today's controller has settled. `case` creates the objects, `comparing` finds unexpected changes.
Both work on real and simulated API servers.
"""
