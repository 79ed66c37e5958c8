"""The edge of the demo: nothing is started for options that cannot work, and an error is one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def demo(*arguments: str, path: str | None = None, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path or "/usr/bin:/bin", "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    command = [sys.executable, "-m", "e2e.demo", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["--nodes", "--gpus", "--limit", "--workers", "--keep"])
def test_the_help_names_every_option(option: str, tmp_path: Path) -> None:
    answer = demo("--help", home=tmp_path)

    assert answer.returncode == 0
    assert option in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--workers=3"], "3 workers do not overfill 6 GPUs: at least 11 are needed"),
        (["--nodes=10", "--gpus=8", "--limit=8"], "too many to watch: at most 100"),
        (["--limit=0"], "--limit"),
    ],
)
def test_options_that_make_no_story_are_refused_with_one_line_and_status_2(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    answer = demo(*arguments, home=tmp_path)

    assert answer.returncode == 2
    assert re.fullmatch(r"error: .*\n", answer.stderr)
    assert complaint in answer.stderr


def test_a_missing_go_is_named_with_its_version_before_anything_is_started(tmp_path: Path) -> None:
    answer = demo(path=str(tmp_path), home=tmp_path)

    assert answer.returncode == 2
    assert re.search(r"^error: Go is needed .*install Go \d+\.\d+", answer.stderr)
    assert answer.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
