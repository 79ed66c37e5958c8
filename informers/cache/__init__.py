"""Shared informers: list and watch a resource, and keep a local store of its objects up to date."""
