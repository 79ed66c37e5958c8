"""Tests of what a Pod really needs, and of what belongs to a worker."""
