"""The acts: fill the fleet, overfill it, give a seat back, see a waiter take it.

Every act ends when the API server shows what it was to show, or fails the demo with one line. On a terminal
each result stays for a moment, so that a person can read it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from e2e.controlplane import wait_until
from e2e.controlplane.errors import NotReady
from e2e.controlplane.waiting import pause_briefly
from e2e.demo.errors import DemoFailed
from e2e.demo.history import History
from e2e.demo.mix import Mix, listed, manifest
from e2e.demo.picture import Picture, State, read_picture
from e2e.demo.screen import TITLE, Screen
from e2e.demo.summary import Ending, Handover, broken_promises
from e2e.ledgerwatch import LedgerWitness
from e2e.openrl import WORKLOADS, OpenRL

LOOK_INTERVAL_SECONDS = 0.1
READING_SECONDS = 4.0
ACT_SECONDS = 60.0
"""How long an act may take. kube-scheduler lets a Pod that it refused rest for up to ten seconds."""


class Story:
    """One performance on an empty cluster with a running controller.

    `require_alive` raises once something that the story needs has ended.
    """

    def __init__(
        self, openrl: OpenRL, mix: Mix, screen: Screen, *, limit: int, require_alive: Callable[[], None]
    ) -> None:
        self._openrl = openrl
        self._mix = mix
        self._screen = screen
        self._limit = limit
        self._require_alive = require_alive
        self._history = History()
        self._acts = 0

    def __repr__(self) -> str:
        return f"<Story {self._mix.total} workers, {self._history!r}>"

    def perform(self, witness: LedgerWitness) -> Ending:
        """Play all acts; return what happened. Raises `DemoFailed`."""
        self._fill()
        self._overfill()
        handover = self._give_a_seat_back()
        picture = self._look()
        revisions = witness.revisions
        self._require_promises(broken_promises(picture, limit=self._limit, revisions=revisions))
        return Ending(picture, time.monotonic(), self._history.records, revisions, handover)

    def _fill(self) -> None:
        if self._mix.alone:
            self._act(f"{listed(self._mix.alone)}: never share, so each gets GPUs of its own")
            self._submit(self._mix.alone)
            self._await_all(self._mix.alone, State.RUNNING)
        many = "one to a GPU" if self._limit == 1 else f"up to {self._limit} to a GPU"
        self._act(f"{listed(self._mix.sharing)}: come at once and fill what is left, {many}")
        self._submit(self._mix.sharing)
        self._await_all(self._mix.sharing, State.RUNNING)

    def _overfill(self) -> None:
        self._act(f"{listed(self._mix.late)}: come to a full fleet; each says why it waits")
        self._submit(self._mix.late)
        picture = self._await_all(self._mix.late, State.WAITING)
        self._require_promises(broken_promises(picture, limit=self._limit, revisions=()))

    def _give_a_seat_back(self) -> Handover:
        giver, waiting = self._mix.sharing[0], set(self._mix.late)
        self._act(f"{giver} is deleted; what it held goes to one who waits")
        asked_seconds = time.monotonic()
        self._openrl.delete(giver)

        def taken(picture: Picture) -> bool:
            return picture.worker(giver) is None and bool(waiting & set(picture.in_state(State.RUNNING)))

        picture = self._await(taken, f"nobody who waits takes the place of {giver}")
        taker = next(name for name in picture.in_state(State.RUNNING) if name in waiting)
        return Handover(giver, taker, asked_seconds)

    def _act(self, title: str) -> None:
        self._acts += 1
        self._screen.say(f"{self._acts}. {title}", style=TITLE)

    def _submit(self, names: Iterable[str]) -> None:
        self._openrl.submit(*map(manifest, names))

    def _await_all(self, names: Sequence[str], state: State) -> Picture:
        def reached(picture: Picture) -> bool:
            return set(names) <= set(picture.in_state(state))

        return self._await(reached, f"{listed(names)} are not all {state.value}")

    def _await(self, reached: Callable[[Picture], bool], what: str) -> Picture:
        """Look again and again until it is reached; show what it came to, to a reader for a while."""

        def look() -> Picture | None:
            picture = self._look()
            return picture if reached(picture) else None

        try:
            picture = wait_until(
                look, what, timeout_seconds=ACT_SECONDS, interval_seconds=LOOK_INTERVAL_SECONDS
            )
        except NotReady:
            self._screen.snapshot(self._look())
            raise
        self._screen.snapshot(picture)
        if self._screen.live:
            self._linger()
        return picture

    def _linger(self) -> None:
        end = time.monotonic() + READING_SECONDS
        while time.monotonic() < end:
            self._look()
            pause_briefly(LOOK_INTERVAL_SECONDS)

    def _look(self) -> Picture:
        self._require_alive()
        openrl = self._openrl
        picture = read_picture(openrl.api.items(WORKLOADS), openrl.ledgers(), openrl.claims())
        self._history.see(picture, time.monotonic())
        self._screen.update(picture)
        return picture

    @staticmethod
    def _require_promises(broken: Sequence[str]) -> None:
        if broken:
            raise DemoFailed("; ".join(broken))
