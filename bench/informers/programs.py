"""The memory of the controller, as users run it on the Pod server, after its Pod watch expired."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection

from bench import procfs
from bench.errors import ContenderFailed, NeverHappened
from bench.informers.children import PodService, Report
from bench.informers.kubeconfig import write_kubeconfig
from e2e.controlplane import wait_until
from e2e.harness.program import DEFAULT_FLAGS, PROGRAM

TIMEOUT_SECONDS = 300


def relisted_program(service: PodService, relists: int) -> Report:
    """Return the peak resident set of the controller after its first list and `relists` relists.

    Raises `ContenderFailed` if it ends, `NeverHappened` if it does not list in time.
    """
    flags = {
        **DEFAULT_FLAGS,
        "--kubeconfig": str(write_kubeconfig(service.folder, service.port)),
        "--metrics-bind-address": "0",
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPEN_RL_")}
    log = service.folder / "program.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(PROGRAM), *(f"{name}={value}" for name, value in flags.items())],
            stdout=output,
            stderr=output,
            env=environment,
        )
    started = time.perf_counter()
    try:
        _until(process, lambda: "Started reconciling" in log.read_text(encoding="utf-8"), "start")
        synced_bytes = procfs.rss_peak_bytes(process.pid)
        for number in range(1, relists + 1):
            _until(process, partial(_watched, service, number), "watch")
            _control(service, "expire")
        _until(process, partial(_watched, service, relists + 1), "list the Pods again")
        return {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": procfs.cpu_seconds(process.pid),
            "rss_peak_bytes": procfs.rss_peak_bytes(process.pid),
            "synced_rss_peak_bytes": synced_bytes,
        }
    finally:
        process.terminate()
        process.wait()


def _until(process: subprocess.Popen[bytes], condition: Callable[[], bool], action: str) -> None:
    def check() -> bool:
        if process.poll() is not None:
            raise ContenderFailed(f"the program ended with status {process.returncode}")
        return condition()

    try:
        wait_until(check, f"the program does not {action}", timeout_seconds=TIMEOUT_SECONDS)
    except AssertionError as error:
        raise NeverHappened(str(error)) from error


def _watched(service: PodService, times: int) -> bool:
    """Return whether the Pod watches have reached this number: one follows each list."""
    return _control(service, "count")["watches"] >= times


def _control(service: PodService, action: str) -> dict[str, int]:
    connection = HTTPConnection("127.0.0.1", service.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", f"/control/{action}")
        counts: dict[str, int] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return counts
