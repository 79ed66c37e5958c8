"""Bugs that are planted into the production code to see the simulation find them; see `catalogue`."""
