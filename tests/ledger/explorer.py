"""Exploration of every interleaving of a few processes in one world, with a bounded number of faults.

A schedule is a list of moves, and the moves alone determine what happens. So a depth-first search can replay:
each run repeats a prefix of moves, then always makes the first possible move, and leaves the others to later
runs. A process depends only on the answers that it received. A state is therefore the world plus these
answers, and a run ends at a state that was reached before.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.ledger.world import Fate, World

WRITES = frozenset({"create", "write_seats", "delete", "delete_claim"})
CRASH: Final = "crash"
DELIVER: Final = "deliver"
END: Final = "end"

Process = Coroutine[Any, Any, object]
Move = tuple[int, Fate | str]


@dataclass
class Crashed:
    """The result of a process that crashed at `point`."""

    point: str


@dataclass
class Run:
    """One schedule and its results: the result of each process, or `Crashed`."""

    world: World
    processes: list[Process]
    results: dict[int, object] = field(default_factory=dict)
    points: dict[int, str] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    faults: int = 0

    def start(self) -> None:
        for index in range(len(self.processes)):
            self._step(index, None)

    def possible(self, max_faults: int) -> list[Move]:
        """Return the possible moves: processes in order of their number, then faults."""
        moves: list[Move] = [(index, Fate.ANSWERED) for index in self.points]
        if self.world.late:
            moves.append((-1, DELIVER))
            if not self.points:
                moves.append((-1, END))
        if self.faults < max_faults:
            for index, point in self.points.items():
                moves.append((index, CRASH))
                if point in WRITES:
                    moves += [(index, fate) for fate in Fate if fate is not Fate.ANSWERED]
        return moves

    def state(self) -> str:
        """Return everything that determines the next steps."""
        world = self.world
        late = [label for label, _ in world.late]
        return repr((world.ledgers, world.claims, late, world.known, self.points, self.results, self.faults))

    def make(self, move: Move) -> None:
        self.moves.append(move)
        index, what = move
        if what == DELIVER:
            self.world.deliver_late()
        elif what == END:
            self.world.late.clear()
        elif isinstance(what, Fate):
            self.faults += what is not Fate.ANSWERED
            self._step(index, what)
        else:
            self.faults += 1
            self.results[index] = Crashed(self.points.pop(index))
            self.processes[index].close()

    def _step(self, index: int, fate: Fate | None) -> None:
        self.points.pop(index, None)
        try:
            self.points[index] = self.processes[index].send(fate)
            self.points = dict(sorted(self.points.items()))
        except StopIteration as end:
            self.results[index] = end.value


def explore(
    make: Callable[[], tuple[World, list[Process]]], *, faults: int = 0, every_step: Callable[[World], None]
) -> Iterator[Run]:
    """Yield one run for each reachable final state. `every_step` checks the world in every state."""
    prefixes: list[list[Move]] = [[]]
    reached: set[str] = set()
    while prefixes:
        prefix = prefixes.pop()
        run = Run(*make())
        run.start()
        for move in prefix:
            run.make(move)
        while (state := run.state()) not in reached:
            reached.add(state)
            every_step(run.world)
            possible = run.possible(faults)
            if not possible:
                yield run
                break
            prefixes += [[*run.moves, other] for other in possible[1:]]
            run.make(possible[0])
