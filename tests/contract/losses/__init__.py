"""Pods that are lost, and claims that move under their workers."""
