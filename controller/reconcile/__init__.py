"""One reconcile of one Workload, step by step in the order of contract §5.

`reconciler` holds the order; each other module is one step. Steps read the caches, let `placement` and
`ledger` decide, and write through `controller.cluster.object_writer`. Any step may be repeated at any time.
"""
