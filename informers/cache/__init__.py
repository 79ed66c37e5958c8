"""Shared informers: list, watch, and the local store that they keep up to date."""
