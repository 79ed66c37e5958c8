"""Tests of the driver in `e2e.controlplane`, which is a tool of the checkout and no installed package."""
