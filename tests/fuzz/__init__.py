"""Structural fuzzing of everything that the controller reads from the API server.

To run it manually for as long as you like: `python -m tests.fuzz --minutes 10 --seed 1`.
"""
