"""The placement controller: composes `informers`, `ledger` and `placement`, and carries out their decisions.

Data flows from watch to cache, queue, reconcile, decision and write. `controller.controller` composes the
parts.
"""
