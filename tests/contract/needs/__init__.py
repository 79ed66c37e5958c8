"""Tests of what a Pod really requests, and of which parts of it belong to the worker."""
