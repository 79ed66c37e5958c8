"""The seats on shared claims: a booking protocol that is correct with any number of controllers.

`names` and `state` define the API objects, `transitions` the rules, and `book` applies the rules by
compare-and-swap through the protocol in `api`. The package does not depend on a Kubernetes client.
"""
