"""Sub-commands that other packages bring along, such as `open-rl-scheduler demo`.

They are found by name among the entry points of what is installed, so that the program neither imports nor
knows them; a production image can leave them out. Nothing is looked up unless an argument is no flag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import cast

GROUP = "open_rl_scheduler.commands"
"""The group of entry points; each loads a function from arguments to an exit status."""

Command = Callable[[Sequence[str]], int]


def find_command(argv: Sequence[str]) -> Command | None:
    """The command that the first argument names, to be called with the others; `None` if it names none."""
    name = argv[0] if argv else ""
    if not name or name.startswith("-"):
        return None
    found = next((point for point in entry_points(group=GROUP, name=name) if _is_there(point)), None)
    return None if found is None else cast("Command", found.load())


def command_names() -> list[str]:
    """The commands that there are, in order."""
    return sorted({point.name for point in entry_points(group=GROUP) if _is_there(point)})


def _is_there(point: EntryPoint) -> bool:
    """Whether its package is: an image may hold fewer packages than were declared."""
    return find_spec(point.module.partition(".")[0]) is not None
