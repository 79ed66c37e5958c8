"""A cluster in one process for real clients such as kubectl: `simulation.apiserver` over HTTP.

`cluster` combines the server, the simulated components and a loopback listener, on the real clock.
`application` routes requests; `objects` and `watching` handle those about objects. `discovery`, `openapi` and
`printing` serve what else kubectl reads. `shapes` refuses objects that do not have the types of their kind.
`simulation.apiserver` does the rest. `e2e.parity` compares it with a real server, and `e2e/test_embedded.py`
compares kubectl's output.

It has no authentication, no admission, no persistence and no containers. It serves only the kinds of
`simulation.apiserver.kinds`; it does not support protobuf, server-side apply or the `Orphan` policy.
"""
