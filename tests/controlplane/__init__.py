"""Tests of `e2e.controlplane`, a test tool that is not installed."""
