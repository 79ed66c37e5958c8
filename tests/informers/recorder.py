"""A store of coloured things that writes down what it tells."""

from __future__ import annotations

from collections.abc import Iterator

from informers.cache.changes import Added, Change, Deleted, Synced, Updated
from informers.cache.store import ObjectKey, Store
from tests.informers.scripted_api import Recorder, Thing


def key(name: str) -> ObjectKey:
    return ObjectKey("space", name)


class Told:
    """A store by colour and what it told, as `Recorder` writes it."""

    def __init__(self, slice_objects: int = 250) -> None:
        self.store: Store[Thing] = Store({"colour": lambda found: found.colours}, slice_objects=slice_objects)
        self.recorder = Recorder()
        self.store.subscribe(self.hear)

    def hear(self, change: Change[Thing]) -> None:
        match change:
            case Added():
                self.recorder.on_add(change.obj, change.initial)
            case Updated():
                self.recorder.on_update(change.old, change.new)
            case Deleted():
                self.recorder.on_delete(change.obj)
            case Synced():
                self.recorder.told.append("synced")

    def take(self) -> list[str]:
        """What was told since last asked."""
        told, self.recorder.told = self.recorder.told, []
        return told

    def list(self, version: int, *things: Thing, restored: bool = False) -> None:
        for _ in self.list_in_slices(version, *things, restored=restored):
            pass

    def list_in_slices(self, version: int, *things: Thing, restored: bool = False) -> Iterator[None]:
        listed = self.store.begin_replacement()
        for found in things:
            listed.add(found)
        yield from self.store.replacing(listed, str(version), restored=restored)
