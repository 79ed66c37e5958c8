"""The seats on shared claims: a booking protocol that is correct with any number of controllers.

`claim_names` and `state` define the API objects, and `seat_rules` the rules. `booking` applies the rules by
compare-and-swap, through the protocol in `api`. The package does not depend on a Kubernetes client.
"""
