"""The rate-limited work queue, and the workers that reconcile its keys."""
