"""The programs of the control plane, built once from the pinned Go modules and kept in a user cache.

Invariant: a folder with its final name is complete. A build uses another name, under a lock, and is renamed
at the end. The name contains the Kubernetes version and a digest of the go.sum files, so that changed pins
cause a new build. Only the go.mod files define versions.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.errors import BuildFailed, MissingTool
from e2e.controlplane.processes.guard import Guard

Progress = Callable[[str], None]

TOOLS = Path(__file__).parents[1] / "tools"
KWOK_STAGES = ("pod-ready", "pod-delete", "pod-complete")


def to_stderr(line: str) -> None:
    """Report progress on standard error."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class _Program:
    name: str
    module: str  # the folder under tools/
    package: str


PROGRAMS = (
    _Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
    _Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    _Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    _Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    _Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    _Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)


@dataclass(frozen=True)
class Binaries:
    """A complete set of programs."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / "bin" / name

    @property
    def kubectl(self) -> Path:
        return self.path("kubectl")

    @property
    def stages(self) -> list[Path]:
        """The Pod stages for the configuration of kwok."""
        return [self.folder / "stages" / f"{stage}.yaml" for stage in KWOK_STAGES]


def kubernetes_version(tools: Path = TOOLS) -> str:
    return _pinned(tools / "kubernetes", "k8s.io/kubernetes")


def cache_root() -> Path:
    """Return the user's cache folder (XDG base directory specification). Relative values are ignored."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    base = configured if configured.is_absolute() else Path.home() / ".cache"
    return base / "open-rl-scheduler" / "controlplane"


def cached_binaries(tools: Path = TOOLS) -> Binaries | None:
    """Return the programs if they are built."""
    folder = cache_root() / _cache_key(tools)
    return Binaries(folder) if folder.is_dir() else None


def ensure_binaries(progress: Progress = to_stderr, *, tools: Path = TOOLS) -> Binaries:
    """Return the programs. The first build takes some minutes."""
    if found := cached_binaries(tools):
        return found
    go = shutil.which("go")
    if go is None:
        raise MissingTool(
            "Go is needed to build the control plane, and is not on the PATH: "
            f"install Go {_go_version(tools)} or newer"
        )
    with _locked(progress):
        if found := cached_binaries(tools):  # the run that held the lock built them
            return found
        return _build(go, tools, progress)


def clean_cache(progress: Progress = to_stderr) -> bool:
    """Remove all builds. Returns False if there were none."""
    if not cache_root().exists():
        return False
    with _locked(progress):
        shutil.rmtree(cache_root())
    _lock_path().unlink(missing_ok=True)
    return True


def _build(go: str, tools: Path, progress: Progress) -> Binaries:
    final = cache_root() / _cache_key(tools)
    partial = final.with_name(f"{final.name}.partial")
    started = time.monotonic()
    progress(f"Building the control plane once into {final}: about 6 minutes on 2 cores")
    shutil.rmtree(partial, ignore_errors=True)
    guard = Guard(partial)
    try:
        (partial / "stages").mkdir(parents=True)
        for number, program in enumerate(PROGRAMS, start=1):
            _build_program(go, tools, program, partial / "bin", guard)
            progress(f"  {number}/{len(PROGRAMS)} {program.name} after {time.monotonic() - started:.0f} s")
        _copy_stages(go, tools, partial / "stages", guard)
        partial.rename(final)
    except OSError as error:
        guard.abandon()
        raise BuildFailed(f"cannot write {error.filename}: {error.strerror}") from error
    except BaseException:
        guard.abandon()
        raise
    guard.dismiss()
    return Binaries(final)


def _build_program(go: str, tools: Path, program: _Program, target: Path, guard: Guard) -> None:
    command = [
        go,
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        _link_flags(tools, program),
    ]
    _run_go([*command, "-o", str(target / program.name), program.package], tools / program.module, guard)


def _link_flags(tools: Path, program: _Program) -> str:
    """Return the linker flags that set the version, which a build from the module cache lacks.

    The API server does not start without a valid version, and clients depend on it.
    """
    flags = "-s -w"
    if program.package.startswith("k8s.io/kubernetes/"):
        version = kubernetes_version(tools)
        major, minor, _ = version.removeprefix("v").split(".", 2)
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags += "".join(f" -X k8s.io/component-base/version.{key}={value}" for key, value in values.items())
    return flags


def _copy_stages(go: str, tools: Path, target: Path, guard: Guard) -> None:
    listing = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
    module = Path(_run_go(listing, tools / "kwok", guard).strip())
    for stage in KWOK_STAGES:
        shutil.copyfile(
            module / "kustomize" / "stage" / "pod" / "fast" / f"{stage}.yaml", target / f"{stage}.yaml"
        )


def _run_go(command: list[str], folder: Path, guard: Guard) -> str:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},  # independent of the checkout's folder
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=guard.process_group,
    )
    with process:
        try:
            output, errors = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        lines = errors.strip().splitlines() or [f"exit status {process.returncode}"]
        failure = BuildFailed(f"{' '.join(command[:2])} {command[-1]} failed: {lines[-1]}")
        for line in lines[-15:]:
            failure.add_note(line)
        raise failure
    return output


def _lock_path() -> Path:
    return cache_root().with_name("controlplane.lock")


@contextmanager
def _locked(progress: Progress) -> Iterator[None]:
    """Hold the lock of the user's cache. The operating system releases it with the process."""
    path = _lock_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise BuildFailed(f"cannot write {error.filename}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Waiting for another build of the control plane")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cache_key(tools: Path) -> str:
    digest = hashlib.sha256()
    for module in ("kubernetes", "kwok"):
        digest.update((tools / module / "go.sum").read_bytes())
    return f"{kubernetes_version(tools)}-{digest.hexdigest()[:12]}"


def _pinned(module: Path, dependency: str) -> str:
    text = (module / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^(?:require)?\s*{re.escape(dependency)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise BuildFailed(f"{module / 'go.mod'} does not pin {dependency}")
    return found[1]


def _go_version(tools: Path) -> str:
    text = (tools / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    found = re.search(r"^go (\S+)$", text, re.MULTILINE)
    return found[1] if found else ""
