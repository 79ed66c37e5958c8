"""What a store tells: each change as a value, in the order in which it was made.

`Synced` closes the adds of the first list, so that the end of it travels through the same queues as the
objects and cannot overtake them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from informers.api import Object, T

T_contra = TypeVar("T_contra", bound=Object, contravariant=True)


@dataclass(frozen=True, slots=True)
class Added(Generic[T]):
    """An object is there. `initial`: it was there before we began, and is not news."""

    obj: T
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Updated(Generic[T]):
    """An object has a newer version and the same UID. Versions in between may have been missed."""

    old: T
    new: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """An object is gone. `obj` is its last state known, which may be older than its very last one."""

    obj: T


@dataclass(frozen=True, slots=True)
class Synced:
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
