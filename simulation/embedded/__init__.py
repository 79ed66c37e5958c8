"""A cluster in this process that real clients can talk to: the server of `simulation.apiserver` over HTTP.

`cluster` puts the server, the actors and a listener on the loopback interface together, on a real clock.
`application` answers requests; each thing that kubectl asks for beyond objects has a module: `discovery`,
`openapi`, `tables`. What the server stores and refuses is `simulation.apiserver`'s alone, which is held
against a real server by `e2e.parity`.

It has no authentication, no admission, no persistence and no containers. Kinds other than those of
`simulation.apiserver.kinds` are not served, nor are protobuf, server-side apply and the `Orphan` policy.
"""
