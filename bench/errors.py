"""What can go wrong in a measurement; the command line turns each into one line and exit status 1."""

from __future__ import annotations


class BenchError(Exception):
    """A run that cannot be measured: its figures would mean nothing."""


class ContenderFailed(BenchError):
    """A contender ended by itself, never became ready, or reported an error."""


class NeverHappened(BenchError):
    """Something that a scenario waits for did not come about in time."""


class WatchEnded(BenchError):
    """A watch of the harness ended: what happened since then was not seen."""


class NotMeasurable(BenchError):
    """This machine or cluster lacks what a measurement reads."""
