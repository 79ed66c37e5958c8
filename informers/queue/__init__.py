"""The rate-limited work queue and the workers that read it."""
