"""Pure placement decisions: which claim to join, which devices to request, why a worker waits."""
