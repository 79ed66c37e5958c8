"""Named streams of chance from one seed: one for each user, so that a draw more in one moves no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random


def happens(rng: Random, probability: float) -> bool:
    """Draw whether something happens that is so probable."""
    return rng.random() < probability


class Streams:
    """`stream(name)` is the same stream, whoever asks for it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def __repr__(self) -> str:
        return f"<Streams seed={self.seed} streams={len(self._streams)}>"

    def stream(self, name: str) -> Random:
        """The stream of that name."""
        known = self._streams.get(name)
        if known is None:
            known = self._streams[name] = Random(f"{self.seed}/{name}")  # noqa: S311 - to be replayed
        return known

    def identifiers(self, name: str) -> Callable[[], str]:
        """A source of UUIDs of version 4, from the stream of that name."""
        rng = self.stream(f"{name}/identifiers")

        def fresh() -> str:
            text = f"{rng.getrandbits(128):032x}"
            return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

        return fresh

    def states(self) -> Iterator[bytes]:
        """One number of each stream, in the order of their names: it tells how often each was asked."""
        for name in sorted(self._streams):
            yield f"{name} {self._streams[name].getrandbits(64):x}\n".encode()
