"""Tests of places that refuse a worker, and of the moves that follow."""
