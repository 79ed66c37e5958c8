"""Pods that were lost, and claims that cannot hold their worker any more."""
