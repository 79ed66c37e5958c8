"""Tests of nodes and claims that refuse a worker, and of the placements that follow."""
