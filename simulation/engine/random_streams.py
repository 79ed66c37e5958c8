"""Named random streams from one seed, one per consumer: an extra draw in one stream changes no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random


def happens(rng: Random, probability: float) -> bool:
    """Return True with this probability."""
    return rng.random() < probability


class Streams:
    """The random streams of one seed. A name always denotes the same stream."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def __repr__(self) -> str:
        return f"<Streams seed={self.seed} streams={len(self._streams)}>"

    def get(self, name: str) -> Random:
        """Return the stream of that name."""
        known = self._streams.get(name)
        if known is None:
            known = self._streams[name] = Random(f"{self.seed}/{name}")  # noqa: S311 - to be replayed
        return known

    def identifiers(self, name: str) -> Callable[[], str]:
        """Return a source of version 4 UUIDs, drawn from the stream of that name."""
        rng = self.get(f"{name}/identifiers")

        def new_identifier() -> str:
            text = f"{rng.getrandbits(128):032x}"
            return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

        return new_identifier

    def states(self) -> Iterator[bytes]:
        """Yield one draw per stream, ordered by name: it depends on how often each stream was drawn."""
        for name in sorted(self._streams):
            yield f"{name} {self._streams[name].getrandbits(64):x}\n".encode()
