"""Access to the cluster: caches, conditional writes, ledger requests, and the fleet as the caches show it."""
