"""Shared informers, a work queue and leader election for asyncio controllers on Kubernetes.

A library of its own: it knows nothing of the controller that it was written for. The flow is
`api` (the port) -> `reflector` (list and watch) -> `store` (cache) -> `informer` (handlers) ->
`workqueue` -> `runner`.
"""
