"""Reconciliation of one Workload, step by step in the order of contract §5.

`reconciler` lists the steps; each other module implements one of them or is shared by several. Steps read the
caches, let `placement` and `ledger` decide, and write through `controller.cluster.object_writer`. Every step
is idempotent.
"""
