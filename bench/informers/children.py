"""The processes of an informer measurement: the Pod server, and readers that print their costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.errors import ContenderFailed

READ_SECONDS = 900
STOP_SECONDS = 10

Report = dict[str, float]


class PodService:
    """A running Pod server, and a folder for its readers."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.folder = folder

    def __repr__(self) -> str:
        return f"<PodService port={self.port}>"

    def read(self, module: str, *before: str, after: Sequence[str] = ()) -> list[Report]:
        """Run a reader, `bench.informers.<module>`, and return the JSON objects that it printed.

        Raises `ContenderFailed` with its last lines.
        """
        arguments = ["-m", f"bench.informers.{module}", *before, str(self.port), str(self.folder), *after]
        try:
            result = subprocess.run(
                [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=READ_SECONDS
            )
        except subprocess.CalledProcessError as error:
            failure = ContenderFailed(f"{module} {' '.join(before)} ended with status {error.returncode}")
            for line in error.stderr.splitlines()[-5:]:
                failure.add_note(line)
            raise failure from error
        except subprocess.TimeoutExpired as error:
            raise ContenderFailed(f"{module} took more than {READ_SECONDS} s") from error
        return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


@contextmanager
def serving(pods: int) -> Iterator[PodService]:
    """Serve this number of Pods during the block."""
    command = [sys.executable, "-m", "bench.informers.server", str(pods)]
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            port = process.stdout.readline() if process.stdout is not None else ""
            if not port.strip():
                raise ContenderFailed(f"the Pod server ended with status {process.wait(STOP_SECONDS)}")
            yield PodService(int(port), Path(folder))
        finally:
            process.kill()
