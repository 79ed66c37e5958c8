"""Kubernetes Events, with repeats aggregated into series."""
