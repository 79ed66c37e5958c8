"""Which Workload is reconciled next, and which event activates which waiting worker."""
