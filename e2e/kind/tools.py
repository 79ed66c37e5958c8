"""The programs that a kind cluster is made with: docker, kind, kubectl and, where there is one, the kit.

A program runs in the guard's process group: Ctrl-C in a terminal reaches the tests only, which then undo
what was begun. One that fails is a single line; the end of what it printed goes along as a note.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.errors import ControlPlaneError, MissingTool

OUTPUT_LINES = 30
DOCKER_SECONDS = 30
END_SECONDS = 20


class ToolFailed(ControlPlaneError):
    """A program ended with a status other than 0, or not in time."""


@dataclass(frozen=True)
class Tools:
    """The environment in which docker, kind and kubectl are found and meet the same daemon."""

    environment: Mapping[str, str]
    process_group: int | None = None

    def path(self, program: str) -> Path:
        """Where a program is. Raises MissingTool."""
        found = shutil.which(program, path=self.environment.get("PATH"))
        if found is None:
            raise MissingTool(f"{program} is not on the PATH: the kind scenarios need it")
        return Path(found)

    def run(self, program: str | Path, *arguments: str, timeout_seconds: float, shown: bool = False) -> str:
        """Run to the end; return its standard output. `shown`: its progress goes to our standard error."""
        command = [str(program if isinstance(program, Path) else self.path(program)), *arguments]
        return _run(command, self.environment, self.process_group, timeout_seconds, shown=shown)

    def docker_answers(self) -> bool:
        """Whether there is a Docker daemon behind the client."""
        try:
            self.run("docker", "version", timeout_seconds=DOCKER_SECONDS)
        except ControlPlaneError:
            return False
        return True


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    process_group: int | None,
    timeout_seconds: float,
    *,
    shown: bool,
) -> str:
    name = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if shown else subprocess.PIPE,
            env=environment,
            process_group=process_group,
            text=True,
        )
        with process:
            try:
                output, errors = process.communicate(timeout=timeout_seconds)
            except BaseException:
                _end(process)
                raise
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailed(f"{name}: {error}") from error
    if process.returncode != 0:
        failure = ToolFailed(f"{name}: exit status {process.returncode}")
        for line in f"{output}{errors or ''}".splitlines()[-OUTPUT_LINES:]:
            failure.add_note(line)
        raise failure
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """Let a program undo what it can before it is killed."""
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def own_environment() -> dict[str, str]:
    """Return this process's environment: what plain kind runs in."""
    return dict(os.environ)
