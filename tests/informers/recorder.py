"""A store of coloured things that writes down what it tells."""

from __future__ import annotations

from collections.abc import Iterator

from informers.cache.changes import Change, Synced
from informers.cache.store import ObjectKey, Store
from tests.informers.scripted_api import Thing, describe


def key(name: str) -> ObjectKey:
    return ObjectKey("space", name)


def describe_change(change: Change[Thing]) -> str:
    """Write a change as `describe` does, the end of the first list as `synced`."""
    return "synced" if isinstance(change, Synced) else describe(change.old, change.new)


class Told:
    """A store by colour and what it told, as `describe` writes it."""

    def __init__(self, slice_objects: int = 250) -> None:
        self.store: Store[Thing] = Store({"colour": lambda found: found.colours}, slice_objects=slice_objects)
        self.told: list[str] = []
        self.store.subscribe(self.hear)

    def hear(self, change: Change[Thing]) -> None:
        self.told.append(describe_change(change))

    def take(self) -> list[str]:
        """What was told since last asked."""
        told, self.told = self.told, []
        return told

    def list(self, version: int, *things: Thing, restored: bool = False) -> None:
        for _ in self.list_in_slices(version, *things, restored=restored):
            pass

    def list_in_slices(self, version: int, *things: Thing, restored: bool = False) -> Iterator[None]:
        listed = self.store.begin_replacement()
        for found in things:
            listed.add(found)
        yield from self.store.replacing(listed, str(version), restored=restored)
