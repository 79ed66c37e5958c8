"""The programs of the control plane, built once from the pinned Go modules and kept in a user cache.

Invariant: a folder with its final name is complete. A build uses another name, under a lock, and is renamed
at the end. The name contains the Kubernetes version and a digest of the go.sum files, so that changed pins
cause a new build. Only the go.mod files define versions.
"""

import hashlib
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.errors import BuildFailed
from e2e.controlplane.processes.go import (
    Progress,
    build_lock,
    cache_folder,
    find_go,
    go_version,
    lock_path,
    run_go,
    to_stderr,
)
from e2e.controlplane.processes.guard import Guard

TOOLS = Path(__file__).parents[1] / "tools"
NAME = "controlplane"
KWOK_STAGES = ("pod-ready", "pod-delete", "pod-complete")


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
    """Return the folder of all builds of the control plane."""
    return cache_folder() / NAME


def cached_binaries(tools: Path = TOOLS) -> Binaries | None:
    """Return the programs if they are built."""
    folder = cache_root() / _cache_key(tools)
    return Binaries(folder) if folder.is_dir() else None


def ensure_binaries(progress: Progress = to_stderr, *, tools: Path = TOOLS) -> Binaries:
    """Return the programs. The first build takes some minutes."""
    if found := cached_binaries(tools):
        return found
    go = find_go("the control plane", go_version(tools / "kubernetes"))
    with build_lock(NAME, progress):
        if found := cached_binaries(tools):  # the run that held the lock built them
            return found
        return _build(go, tools, progress)


def clean_cache(progress: Progress = to_stderr) -> bool:
    """Remove all builds. Returns False if there were none."""
    if not cache_root().exists():
        return False
    with build_lock(NAME, progress):
        shutil.rmtree(cache_root())
    lock_path(NAME).unlink(missing_ok=True)
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
    run_go([*command, "-o", str(target / program.name), program.package], tools / program.module, guard)


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
    module = Path(run_go(listing, tools / "kwok", guard).strip())
    for stage in KWOK_STAGES:
        shutil.copyfile(
            module / "kustomize" / "stage" / "pod" / "fast" / f"{stage}.yaml", target / f"{stage}.yaml"
        )


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
