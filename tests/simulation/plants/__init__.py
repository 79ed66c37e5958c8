"""Bugs planted into the production code, which the simulation must find; see `catalogue`."""
