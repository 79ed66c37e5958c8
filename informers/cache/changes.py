"""What a store tells: each change as a value, in the order in which it was made.

`Synced` closes the adds of the first list, so that the end of it travels through the same queues as the
objects and cannot overtake them. Changes come by the hundred thousand in a first list: gc=False keeps them
out of the collector's sight, and nothing ever refers back to one.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from informers.api import Object, T

T_contra = TypeVar("T_contra", bound=Object, contravariant=True)


class Added(Struct, Generic[T], frozen=True, gc=False):
    """An object is there. `initial`: it was there before we began, and is not news."""

    obj: T
    initial: bool = False


class Updated(Struct, Generic[T], frozen=True, gc=False):
    """An object has a newer version and the same UID. Versions in between may have been missed."""

    old: T
    new: T


class Deleted(Struct, Generic[T], frozen=True, gc=False):
    """An object is gone. `obj` is its last state known, which may be older than its very last one."""

    obj: T


class Synced(Struct, frozen=True, gc=False):
    """The first list is complete: all that it held was told before this."""


Change = Added[T] | Updated[T] | Deleted[T] | Synced


class EventHandler(Protocol[T_contra]):
    """Receives the changes of one resource. Calls are made on the event loop and must return promptly."""

    def on_add(self, obj: T_contra, initial: bool, /) -> None:
        """`obj` is there; `initial` if it was there when the handler was added or the first list was read."""

    def on_update(self, old: T_contra, new: T_contra, /) -> None:
        """`old` became `new`, with the same UID."""

    def on_delete(self, obj: T_contra, /) -> None:
        """`obj`, in its last state known, is gone."""
