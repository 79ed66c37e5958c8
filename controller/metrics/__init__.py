"""Prometheus metrics. `definitions` defines every name; the other modules export statistics under them."""
