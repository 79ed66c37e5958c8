"""Tests of cleanup: a failed or ended start leaves no process and no folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.controlplane.cluster import CHECKOUT
from e2e.controlplane.errors import ComponentEnded, NotReady
from e2e.controlplane.local import ControlPlane, Options
from e2e.controlplane.waiting import wait_until
from tests.controlplane.fakes import (
    DIES,
    HANGS,
    PORT_TAKEN_ONCE,
    READY_ETCD,
    TIMEOUT_SECONDS,
    await_ended,
    await_held,
    fake_binaries,
)

DRIVER = """
import sys
from pathlib import Path
from e2e.controlplane.processes.binaries import Binaries
from e2e.controlplane.local import ControlPlane, Options
ControlPlane.start(Options(binaries=Binaries(Path(sys.argv[1])), start_timeout_seconds=300))
"""


def silent(_line: str) -> None:
    """Report no progress."""


def await_empty(folder: Path) -> None:
    wait_until(lambda: not any(folder.iterdir()), f"{folder} is not empty", timeout_seconds=TIMEOUT_SECONDS)


def test_an_ended_component_is_reported_with_its_log(tmp_path: Path, run_root: Path) -> None:
    binaries = fake_binaries(
        tmp_path, etcd=READY_ETCD, kube_apiserver=DIES.format(message="cannot read the policy")
    )
    with pytest.raises(ComponentEnded) as failure:
        ControlPlane.start(Options(binaries=binaries, progress=silent))

    assert str(failure.value) == "kube-apiserver ended with status 3: cannot read the policy"
    assert "kube-apiserver: reading the configuration" in failure.value.__notes__
    assert not any(run_root.iterdir())


def test_all_components_are_stopped_if_one_never_becomes_ready(tmp_path: Path, run_root: Path) -> None:
    lock = tmp_path / "apiserver-lock"
    binaries = fake_binaries(tmp_path, etcd=READY_ETCD, kube_apiserver=HANGS.format(lock=str(lock)))
    with pytest.raises(NotReady, match=r"^kube-apiserver is not ready: not within 2 s") as failure:
        ControlPlane.start(Options(binaries=binaries, progress=silent, start_timeout_seconds=2))

    assert failure.value.__notes__ == ["kube-apiserver: waiting for nothing"]
    await_ended(lock)
    assert not any(run_root.iterdir())


def test_a_taken_port_is_replaced(tmp_path: Path, run_root: Path) -> None:
    marker = tmp_path / "first"
    etcd, apiserver = PORT_TAKEN_ONCE.format(marker=str(marker)), DIES.format(message="second")
    binaries = fake_binaries(tmp_path, etcd=etcd, kube_apiserver=apiserver)
    with pytest.raises(ComponentEnded, match="kube-apiserver ended with status 3: second"):
        ControlPlane.start(Options(binaries=binaries, progress=silent))
    assert marker.exists()
    assert not any(run_root.iterdir())


def test_a_missing_program_is_one_line(tmp_path: Path, run_root: Path) -> None:
    binaries = fake_binaries(tmp_path)
    binaries.path("etcd").unlink()
    with pytest.raises(ComponentEnded, match=r"^etcd cannot be started: .*: No such file or directory$"):
        ControlPlane.start(Options(binaries=binaries, progress=silent))
    assert not any(run_root.iterdir())


def test_the_folder_is_kept_on_request(tmp_path: Path, run_root: Path) -> None:
    lines: list[str] = []
    binaries = fake_binaries(tmp_path, etcd=DIES.format(message="no"))
    with pytest.raises(ComponentEnded):
        ControlPlane.start(Options(binaries=binaries, progress=lines.append, keep=True))
    (kept,) = run_root.iterdir()
    assert lines == [f"Kept {kept}"]
    assert (kept / "etcd.log").read_text(encoding="utf-8").splitlines() == ["reading the configuration", "no"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_killed_driver_leaves_nothing_behind(
    tmp_path: Path, run_root: Path, number: signal.Signals
) -> None:
    lock = tmp_path / "etcd-lock"
    fake_binaries(tmp_path, etcd=HANGS.format(lock=str(lock)))
    command = [sys.executable, "-c", DRIVER, str(tmp_path)]
    with subprocess.Popen(command, cwd=CHECKOUT, env={**os.environ}, stderr=subprocess.DEVNULL) as driver:
        await_held(lock)
        assert any(run_root.iterdir())
        driver.send_signal(number)
        assert driver.wait(TIMEOUT_SECONDS) != 0
    await_ended(lock)
    await_empty(run_root)
