"""One reconcile of one Workload, step by step in the order of section 5 of the contract.

`reconciler` holds the order; each other module is one step. Steps read the caches, let `placement` and
`ledger` decide, and write through `controller.cluster.object_writer`. Any step may be repeated at any time.
"""
