"""The program that cleans up after the driver died. `guard` runs it.

It leads the process group of all components, and blocks on a pipe whose other end only the driver holds. Any
end of the driver, even SIGKILL, closes the pipe. The guardian then kills the group, runs the given commands
and removes the folder. A parent-death signal is not enough: Linux ties it to the *thread* that started the
child, other systems lack it, and it removes no folder.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

DISMISSED = b"dismissed"
DEADLINE_SECONDS = 10


def main(folder: str, commands: str) -> None:
    """Wait for the end of the driver, and clean up unless it reported that it did."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() == DISMISSED:
        return
    group = os.getpgrp()
    if os.fork() == 0:
        os.setsid()  # leave the group before it is killed
        kill_group(group)
        for command in json.loads(commands):
            with contextlib.suppress(OSError):  # the next command may still work
                subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def kill_group(group: int) -> None:
    """Kill the group until it is empty. A deadline applies, because unreaped processes stay members."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.02)  # noqa: TID251


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
