"""Tests of the command line: each error is one line and an exit status."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.controlplane.cli import main
from e2e.controlplane.cluster import CHECKOUT
from tests.controlplane.fakes import HANGS, await_ended, await_held, write_program


@dataclass(frozen=True)
class Answer:
    status: int
    stdout: str
    stderr: str


Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run the command line in this process, with an empty cache and nothing on the PATH."""
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["controlplane", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert isinstance(end.value.code, int)
        return Answer(end.value.code, *capsys.readouterr())

    yield call
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("up", "--gpu-memory", "80GB"),
            "--gpu-memory: '80GB' is not allowed: a quantity such as 64 or 80Gi",
        ),
        (("up", "--host-memory", ""), "--host-memory: '' is not allowed: a quantity"),
        (("up", "--nodes", "-1"), "--nodes: -1 is not allowed: a whole number from 0 to 5000"),
        (("up", "--gpus", "129"), "--gpus: 129 is not allowed: a whole number from 0 to 128"),
        (("up", "--nodes=3", "--nodes=5"), "--nodes: given more than once"),
        (("up", "--kep"), "No such option '--kep'"),
        (("down",), "No such command 'down': build, clean or up"),
        (("up",), "Go is needed to build the control plane"),
        (("build",), "Go is needed to build the control plane"),
        (
            ("up", "--kubeconfig-out", "/dev/null"),
            "/dev/null: exists and is not overwritten",
        ),
        (("up", "--kubeconfig-out", "/nowhere/k"), "--kubeconfig-out /nowhere/k: No such file or directory"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    answer = run(*arguments)
    assert answer.status == 2
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_a_kubeconfig_does_not_overwrite_an_existing_file(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "config"
    mine.write_text("mine", encoding="utf-8")
    assert run("up", "--kubeconfig-out", str(mine)).status == 2
    assert mine.read_text(encoding="utf-8") == "mine"


def test_an_unused_kubeconfig_is_removed(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "config"
    assert run("up", "--kubeconfig-out", str(target)).status == 2
    assert not target.exists()


def test_clean_with_an_empty_cache_is_no_error(run: Run) -> None:
    answer = run("clean")
    assert (answer.status, answer.stderr) == (0, "Nothing was built\n")


def test_help_names_every_command(run: Run) -> None:
    answer = run("--help")
    assert answer.status == 0
    for command in ("build", "clean", "up"):
        assert f"\n  {command} " in answer.stdout
    assert run().status == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_has_no_traceback(tmp_path: Path, number: signal.Signals) -> None:
    lock = tmp_path / "lock"
    write_program(tmp_path / "bin" / "go", HANGS.format(lock=str(lock)))
    command = [sys.executable, "-m", "e2e.controlplane", "up"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}
    with subprocess.Popen(
        command, cwd=CHECKOUT, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        await_held(lock)
        process.send_signal(number)
        _, messages = process.communicate()
    assert process.returncode == 130
    assert messages.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in messages
    await_ended(lock)
