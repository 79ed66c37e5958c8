"""The command line of the demo: invalid options start nothing, and an error is one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.demo.cli import run
from tests.demo.running import demo

OPTIONS = ("--nodes", "--gpus", "--gpu-memory", "--limit", "--workers", "--seed", "--serve")
MEMORY = "a whole number of Gi from 4Gi to 1024Gi, such as 80Gi"


def test_the_help_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith("Usage: open-rl-scheduler demo ")
    assert [option for option in OPTIONS if option not in shown] == []
    assert "Exit status: 0 for a complete demo" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers=3"], "--workers: 3 is not allowed: 11 to 100 for 3 nodes of 2 GPUs at limit 2"),
        (["--workers=999999"], "--workers: 999999 is not allowed: 11 to 100 for 3 nodes of 2 GPUs"),
        (
            ["--nodes=10", "--gpus=8"],
            "--limit 2 need at least 159 workers, but the demo shows at most 100; lower one of them",
        ),
        (["--nodes=abc"], "--nodes: 'abc' is not allowed: a whole number from 1 to 10"),
        (["--limit=0"], "--limit: 0 is not allowed: a whole number from 1 to 8"),
        (["--gpu-memory=80GiB"], f"--gpu-memory: '80GiB' is not allowed: {MEMORY}"),
        (["--gpu-memory=1.5G"], f"--gpu-memory: '1.5G' is not allowed: {MEMORY}"),
        (["--gpu-memory=3Gi"], f"--gpu-memory: '3Gi' is not allowed: {MEMORY}"),
        (["--gpu-memory=1025Gi"], f"--gpu-memory: '1025Gi' is not allowed: {MEMORY}"),
        (["--gpu-memory=99999999999999999999Gi"], f"'99999999999999999999Gi' is not allowed: {MEMORY}"),
        (["--nodes=3", "--nodes=5"], "--nodes: given more than once"),
        (["--seed=-1"], "--seed: -1 is not allowed: a whole number, at least 0"),
        (["now"], "unexpected extra argument (now)"),
    ],
)
def test_invalid_options_are_refused_with_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(arguments)

    shown = capsys.readouterr()
    assert (status, shown.out) == (2, "")
    assert re.fullmatch(r"error: .*\n", shown.err)
    assert message in shown.err


def test_the_demo_is_a_subcommand_of_the_program(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("open-rl-scheduler")
    answer = subprocess.run(
        [program, "demo", "--limit=9"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "error: --limit: 9 is not allowed: a whole number from 1 to 8\n"


# On a real control plane.


def test_the_demo_on_a_real_control_plane_has_the_same_options(tmp_path: Path) -> None:
    answer = demo("--help", module="e2e.demo", home=tmp_path)

    assert answer.returncode == 0
    assert [option for option in OPTIONS if option not in answer.stdout] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers=3"], "--workers: 3 is not allowed: 11 to 100 for 3 nodes of 2 GPUs at limit 2"),
        (["--nodes=3", "--nodes=5"], "--nodes: given more than once"),
    ],
)
def test_the_demo_on_a_real_control_plane_refuses_the_same_options(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    answer = demo(*arguments, module="e2e.demo", home=tmp_path)

    assert answer.returncode == 2
    assert answer.stderr == f"error: {message}\n"


def test_missing_go_is_reported_with_the_required_version_before_anything_is_started(tmp_path: Path) -> None:
    answer = demo(module="e2e.demo", path=str(tmp_path), home=tmp_path)

    assert answer.returncode == 2
    assert re.search(r"^error: Go is needed .*install Go \d+\.\d+", answer.stderr)
    assert answer.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
