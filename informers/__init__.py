"""Shared informers, a work queue and leader election for asyncio controllers on Kubernetes.

A self-contained library: it imports nothing of the controller around it. Its layers, from the bottom up:

- `api`, `errors`: the port to an API server, and its errors, classified by what the caller has to do.
- `backoff`, `histogram`: delays of retries, and histograms as plain data.
- `client`: the port over HTTP (configuration, credentials, connections, lists, watch streams).
- `cache`: Store, Indexer, Reflector and SharedInformer, which list, watch and notify handlers.
- `queue`: the rate-limited WorkQueue and the workers that reconcile its keys.
- `leader`: leader election on a Lease.
- `events`: Kubernetes Events, with their repeats aggregated into series.
"""
