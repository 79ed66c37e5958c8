"""Recording Kubernetes Events, with aggregation of repeats."""
