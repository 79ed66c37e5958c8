"""The changes that a store reports, as values.

A store reports changes in the order in which it made them. `Synced` follows the last change of the first
list. It passes through the same queues as the changes, and therefore cannot overtake them. A first list
causes hundreds of thousands of changes. With `gc=False` the garbage collector skips them, which is safe:
nothing refers back to a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from msgspec import Struct

from informers.api import T


class Transition(Struct, Generic[T], frozen=True, gc=False):
    """One change of one object: added (`old` is `None`), updated, or deleted (`new` is `None`).

    The two objects of an update have the same UID; versions in between may be missing. A deletion has the
    last known state of its object, which may have changed unseen before the deletion.
    """

    old: T | None
    new: T | None


class Synced(Struct, frozen=True, gc=False):
    """End of the first list: every object in it has been reported."""


Change = Transition[T] | Synced

ChangeCallback = Callable[[T | None, T | None], None]
"""A handler: it receives `old` and `new` of each transition on the event loop and must return promptly."""
