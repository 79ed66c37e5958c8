"""Expected errors of a measurement. The command line prints each as one line and exits with status 1."""

from __future__ import annotations


class BenchError(Exception):
    """A failed run, whose figures would be meaningless."""


class ContenderFailed(BenchError):
    """A contender ended by itself, never became ready, or reported an error."""


class NeverHappened(BenchError):
    """A state that a scenario waits for was not reached in time."""


class WatchEnded(BenchError):
    """A watch of the benchmark ended, so later events are missing."""


class NotMeasurable(BenchError):
    """The machine or cluster does not provide a figure that a measurement needs."""
