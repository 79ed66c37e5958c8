"""The external programs: docker, kind, kubectl and the kit.

They run in the guard's process group, so that Ctrl-C in a terminal interrupts only the tests, which then
clean up. A failed program is reported in one line, with the end of its output as a note.
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
    """A program failed or timed out."""


@dataclass(frozen=True)
class Tools:
    """The environment in which docker, kind and kubectl are found and use the same daemon."""

    environment: Mapping[str, str]
    process_group: int | None = None

    def path(self, program: str) -> Path:
        """Return the path of a program. Raises `MissingTool`."""
        found = shutil.which(program, path=self.environment.get("PATH"))
        if found is None:
            raise MissingTool(f"{program} is not on the PATH, but the kind scenarios need it")
        return Path(found)

    def run(self, program: str | Path, *arguments: str, timeout_seconds: float, shown: bool = False) -> str:
        """Run a program and return its standard output. With `shown`, its progress goes to standard error."""
        command = [str(program if isinstance(program, Path) else self.path(program)), *arguments]
        return _run(command, self.environment, self.process_group, timeout_seconds, shown=shown)

    def docker_answers(self) -> bool:
        """Whether a Docker daemon is running."""
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
    """Stop a program with time to clean up, and kill it after that."""
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def own_environment() -> dict[str, str]:
    """Return this process's environment, for plain kind."""
    return dict(os.environ)
