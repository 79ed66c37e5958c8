"""Who sits on which claim: the seat protocol, correct with any number of controllers at once.

`names` and `state` say what stands in the API, `transitions` decide what may become of it, and `book`
carries that out by compare-and-swap over the port in `api`. Nothing here knows a Kubernetes client.
"""
