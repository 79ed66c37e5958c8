"""Metrics for Prometheus. `definitions` is the one home of their names; `program` says what is served."""
