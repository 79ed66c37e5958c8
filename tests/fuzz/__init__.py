"""Structural fuzzing of everything that the controller reads from the API server.

By hand, for as long as one likes: `python -m tests.fuzz --minutes 10 --seed 1`.
"""
