"""Tests of the build: once per set of pins, and never incomplete."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from e2e.controlplane.cluster import CHECKOUT
from e2e.controlplane.errors import BuildFailed, MissingTool
from e2e.controlplane.processes.binaries import (
    KWOK_STAGES,
    PROGRAMS,
    TOOLS,
    cache_root,
    cached_binaries,
    clean_cache,
    ensure_binaries,
    kubernetes_version,
)
from e2e.controlplane.waiting import wait_until
from tests.controlplane.fakes import HANGS, TIMEOUT_SECONDS, await_ended, await_held, write_program

# Records each program that it "builds". `go list` returns the folder of kwok's stages.
GO = """
import pathlib, sys
if sys.argv[1] == "list":
    print({module!r})
    sys.exit()
target = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
with open({built!r}, "a") as notes:
    notes.write(target.name + "\\n")
target.parent.mkdir(exist_ok=True)
target.write_text(" ".join(sys.argv))
"""

BUILD = """
from e2e.controlplane.processes.binaries import ensure_binaries
ensure_binaries()
"""


def silent(_line: str) -> None:
    """Report no progress."""


class BuildEnvironment:
    """A separate cache, a replaceable Go, and changeable pins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.built = root / "built"
        self.tools = root / "tools"
        self.stages = root / "module" / "kustomize" / "stage" / "pod" / "fast"
        self.stages.mkdir(parents=True)
        for stage in KWOK_STAGES:
            (self.stages / f"{stage}.yaml").touch()
        for module in ("kubernetes", "kwok"):
            (self.tools / module).mkdir(parents=True)
            for name in ("go.mod", "go.sum"):
                shutil.copyfile(TOOLS / module / name, self.tools / module / name)

    def install_go(self, body: str = GO) -> None:
        module = self.root / "module"
        write_program(
            self.root / "path" / "go",
            body.replace("{module!r}", repr(str(module))).replace("{built!r}", repr(str(self.built))),
        )

    def programs_built(self) -> list[str]:
        return self.built.read_text(encoding="utf-8").split() if self.built.exists() else []


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildEnvironment:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return BuildEnvironment(tmp_path)


def test_a_second_run_builds_nothing(environment: BuildEnvironment) -> None:
    environment.install_go()
    first = ensure_binaries(silent, tools=environment.tools)
    assert environment.programs_built() == [program.name for program in PROGRAMS]
    assert all(stage.exists() for stage in first.stages)
    assert ensure_binaries(silent, tools=environment.tools) == first
    assert len(environment.programs_built()) == len(PROGRAMS)


def test_kubernetes_programs_contain_their_version(environment: BuildEnvironment) -> None:
    environment.install_go()
    command = (
        ensure_binaries(silent, tools=environment.tools).path("kube-apiserver").read_text(encoding="utf-8")
    )
    assert f"version.gitVersion={kubernetes_version()} " in command
    assert "version.gitMajor=1 " in command


def test_changed_pins_cause_another_build(environment: BuildEnvironment) -> None:
    environment.install_go()
    first = ensure_binaries(silent, tools=environment.tools)
    (environment.tools / "kwok" / "go.sum").write_text("other", encoding="utf-8")
    assert cached_binaries(environment.tools) is None
    assert ensure_binaries(silent, tools=environment.tools).folder != first.folder


def test_a_missing_go_is_one_line(environment: BuildEnvironment) -> None:
    with pytest.raises(MissingTool, match=r"^Go is needed .* install Go 1\.26\.0 or newer$") as failure:
        ensure_binaries(silent, tools=environment.tools)
    assert failure.value.exit_status == 2


def test_a_failed_build_leaves_no_final_folder(environment: BuildEnvironment) -> None:
    environment.install_go("import sys\nprint('first line', file=sys.stderr)\nsys.exit('package not found')")
    with pytest.raises(BuildFailed, match=r"package not found$") as failure:
        ensure_binaries(silent, tools=environment.tools)
    assert failure.value.__notes__ == ["first line", "package not found"]
    assert cached_binaries(environment.tools) is None
    wait_until(lambda: not any(cache_root().iterdir()), "left over", timeout_seconds=TIMEOUT_SECONDS)


def test_two_concurrent_runs_build_once(environment: BuildEnvironment) -> None:
    environment.install_go()
    folders: list[Path] = []
    lines: list[str] = []

    def run() -> None:
        folders.append(ensure_binaries(lines.append, tools=environment.tools).folder)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert len(set(folders)) == 1
    assert len(folders) == len(threads)
    assert len(environment.programs_built()) == len(PROGRAMS)


def test_a_killed_build_leaves_neither_process_nor_folder(environment: BuildEnvironment) -> None:
    lock = environment.root / "lock"
    environment.install_go(HANGS.format(lock=str(lock)))
    with subprocess.Popen([sys.executable, "-c", BUILD], cwd=CHECKOUT, stderr=subprocess.DEVNULL) as run:
        await_held(lock)
        assert any(cache_root().iterdir())
        run.send_signal(signal.SIGKILL)
    await_ended(lock)
    wait_until(lambda: not any(cache_root().iterdir()), "left over", timeout_seconds=TIMEOUT_SECONDS)


def test_cleaning_removes_what_was_built(environment: BuildEnvironment) -> None:
    assert clean_cache(silent) is False
    environment.install_go()
    ensure_binaries(silent, tools=environment.tools)
    assert clean_cache(silent) is True
    assert not cache_root().exists()


def test_an_unwritable_cache_is_named(environment: BuildEnvironment) -> None:
    environment.install_go()
    (environment.root / "cache").touch()
    with pytest.raises(BuildFailed, match=r"^cannot write .*cache.*: (Not a directory|File exists)$"):
        ensure_binaries(silent, tools=environment.tools)


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert cache_root() == Path.home() / ".cache" / "open-rl-scheduler" / "controlplane"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root().is_relative_to(Path(os.environ["HOME"]))
