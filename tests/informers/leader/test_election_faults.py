"""Two processes, one lease, and a thousand rounds of random faults (E10)."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import anyio
import pytest

from informers.errors import OutcomeUnknown, ServerError
from informers.leader.election import ElectionSettings, LeaderElector, LeadershipLost
from tests.informers.leader.lease_server import SETTINGS, Client, lease_server, make_elector
from tests.virtualtime import block, run_virtual


class Link:
    """A connection to the server with random faults. Half of the rounds also interrupt it for a while."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        # Each round has its own mix of faults, without some kinds.
        self.slow, self.dead, self.refused, self.lost, self.cut = (
            rng.choice((0.0, 0.05, 0.3)) for _ in range(5)
        )
        self.cut_until = 0.0

    async def before(self, _verb: str) -> None:
        if self.rng.random() < self.cut / 4:
            self.cut_until = anyio.current_time() + self.rng.uniform(10, 40)
        await anyio.sleep(max(0.0, self.cut_until - anyio.current_time()))
        await self.delay()
        if self.rng.random() < self.refused:
            raise ServerError("refused")

    async def after(self, _verb: str) -> None:
        if self.rng.random() < self.lost:
            raise OutcomeUnknown("lost")
        await self.delay()

    async def delay(self) -> None:
        dice = self.rng.random()
        if dice < self.dead:
            await anyio.sleep(self.rng.uniform(5, 40))
        elif dice < self.dead + self.slow:
            await anyio.sleep(self.rng.uniform(0, 7))


class Chaos:
    """Two processes that compete for one lease for two minutes."""

    def __init__(self, seed: int, seen: Counter[str]) -> None:
        self.rng = random.Random(seed)
        self.seen = seen
        self.inside: str | None = None
        # Half of the rounds leave little time between the stop of the work and the takeover.
        self.settings = self.rng.choice((SETTINGS, ElectionSettings(15, 14.5, 2)))
        self.touched, self.paused = (self.rng.choice((0.0, 0.05, 0.3)) for _ in range(2))

    @contextmanager
    def guarded(self, name: str) -> Iterator[None]:
        assert self.inside is None, f"{name} entered while {self.inside} was inside"
        self.inside = name
        self.seen["terms"] += 1
        try:
            yield
        finally:
            self.inside = None

    async def work(self, elector: LeaderElector) -> None:
        with self.guarded(elector.identity):
            for _ in range(self.rng.choice((5, 1000, 1000))):
                await anyio.sleep(1)
                if not elector.may_write():
                    self.seen["writes withheld"] += 1

    async def process(self, elector: LeaderElector) -> None:
        while True:
            with anyio.move_on_after(self.rng.uniform(20, 200)) as stopped:
                try:
                    await elector.run(lambda: self.work(elector))
                except LeadershipLost:
                    self.seen["losses"] += 1
            self.seen["clean stops"] += stopped.cancelled_caught
            self.seen["slow paths"] += elector.statistics().slowpath_total
            await anyio.sleep(self.rng.uniform(0, 5))

    async def run(self) -> None:
        async with lease_server() as server:
            for host in "ab":
                client, link = Client(server), Link(self.rng)
                client.before, client.after = link.before, link.after
                elector = make_elector(client, host, settings=self.settings, seed=self.rng.randrange(1000))
                server.tasks.start_soon(self.process, elector)
            for _ in range(24):
                await anyio.sleep(5)
                if server.object is not None and self.rng.random() < self.touched:
                    server.touch()
                if self.rng.random() < self.paused:
                    block(self.rng.uniform(1, 12))
            holders = [spec.get("holderIdentity") for _, spec in server.history]
            self.seen["takeovers"] += sum(
                earlier != later for earlier, later in pairwise(filter(None, holders))
            )


@pytest.mark.timeout(240)
def test_E10_never_two_leaders_in_a_thousand_rounds_of_faults() -> None:
    logging.disable(logging.CRITICAL)
    seen: Counter[str] = Counter()
    try:
        for seed in range(1000):
            run_virtual(Chaos(seed, seen).run)
    finally:
        logging.disable(logging.NOTSET)
    assert seen["terms"] > 1000
    assert seen["takeovers"] > 500
    assert seen["losses"] > 100
    assert seen["clean stops"] > 100
    assert seen["slow paths"] > 100
