"""The program that cleans up after a driver that died: run by `guard`, never imported.

It leads the process group that all components join, and blocks on a pipe whose other end only the driver
holds. The driver's death, however it comes about (SIGKILL included), closes the pipe; then the group is
killed, the given commands run, and the folder is removed. A parent-death signal would not do: Linux ties it
to the *thread* that started the child, it does not exist elsewhere, and it removes no folder.
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
    """Wait for the driver; clean up unless it said that it did so itself."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() == DISMISSED:
        return
    group = os.getpgrp()
    if os.fork() == 0:
        os.setsid()  # out of the group that is about to be killed
        kill_group(group)
        for command in json.loads(commands):
            with contextlib.suppress(OSError):  # the next one may still be able to do its part
                subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def kill_group(group: int) -> None:
    """Kill until nobody is left; not for ever, since a dead process is in the group until it is reaped."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.02)  # noqa: TID251


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
