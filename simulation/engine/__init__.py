"""Determinism: virtual time, virtual processes, seeded randomness, traces and the tripwire."""
