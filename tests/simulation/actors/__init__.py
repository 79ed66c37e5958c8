"""Tests of the simulated components of a cluster."""
