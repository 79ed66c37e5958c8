"""A cluster in this process that real clients can talk to: the server of `simulation.apiserver` over HTTP.

`cluster` puts the server, the actors and a listener on the loopback interface together, on a real clock.
`application` answers requests, `objects` and `watching` those about objects; each thing that kubectl asks
for besides has a module: `discovery`, `openapi`, `printing`. `shapes` keeps out what is no object of its
kind. What is stored and refused is otherwise `simulation.apiserver`'s alone; `e2e.parity` holds it against a
real server, and `e2e/test_embedded.py` compares what kubectl makes of it.

It has no authentication, no admission, no persistence and no containers. Kinds other than those of
`simulation.apiserver.kinds` are not served, nor are protobuf, server-side apply and the `Orphan` policy.
"""
