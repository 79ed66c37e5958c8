"""The program and the manifests of Kueue, built once from its pinned Go module into the user's cache."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.errors import BuildFailed
from e2e.controlplane.processes.go import build_lock, cache_folder, find_go, go_version, run_go, to_stderr
from e2e.controlplane.processes.guard import Guard

NAME = "kueue"
MODULE = "sigs.k8s.io/kueue"
METRICS_FOLDER = '"/etc/kueue/metrics/certs"'
METRICS_VARIABLE = "KUEUE_METRICS_CERTIFICATE_FOLDER"
TOOLS = Path(__file__).parent / "tools"


@dataclass(frozen=True)
class KueueProgram:
    """A complete build."""

    folder: Path

    @property
    def binary(self) -> Path:
        return self.folder / "kueue"

    @property
    def crds(self) -> Path:
        return self.folder / "crds"

    @property
    def webhooks(self) -> Path:
        return self.folder / "webhooks.yaml"


def ensure_kueue() -> KueueProgram:
    """Return Kueue. The first build takes some minutes. Raises `MissingTool`, `BuildFailed`."""
    digest = hashlib.sha256((TOOLS / "go.sum").read_bytes()).hexdigest()[:12]
    program = KueueProgram(cache_folder() / NAME / digest)
    if program.folder.is_dir():
        return program
    go = find_go("Kueue", go_version(TOOLS))
    with build_lock(NAME, to_stderr):
        if not program.folder.is_dir():
            _build(go, program.folder)
    return program


def _build(go: str, final: Path) -> None:
    to_stderr(f"Building Kueue once into {final}: 4 to 14 minutes on 2 cores")
    partial = KueueProgram(final.with_name(f"{final.name}.partial"))
    shutil.rmtree(partial.folder, ignore_errors=True)
    partial.folder.mkdir(parents=True)
    guard = Guard(partial.folder)
    try:
        listing = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE]
        source = _patched(Path(run_go(listing, TOOLS, guard).strip()), partial.folder / "source")
        modules = partial.folder / "build.mod"
        modules.write_text(f"{(TOOLS / 'go.mod').read_text()}\nreplace {MODULE} => {source}\n")
        shutil.copyfile(TOOLS / "go.sum", modules.with_suffix(".sum"))
        build = [go, "build", "-mod=readonly", f"-modfile={modules}", "-trimpath", "-buildvcs=false"]
        run_go([*build, "-o", str(partial.binary), f"{MODULE}/cmd/kueue"], TOOLS, guard)
        components = source / "config" / "components"
        shutil.copytree(components / "crd" / "bases", partial.crds)
        shutil.copyfile(components / "webhook" / "manifests.yaml", partial.webhooks)
        shutil.rmtree(source)
        partial.folder.rename(final)
    except BaseException:
        guard.abandon()
        raise
    guard.dismiss()


def _patched(module: Path, target: Path) -> Path:
    """Copy the sources, with the folder of the metrics certificate as a variable.

    Kueue does not start without that certificate, even if it serves no metrics, and its folder is fixed in
    `/etc`, where tests must not write.
    """
    shutil.copytree(module, target, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(target):
        Path(folder).chmod(0o755)  # the module cache is read-only
    main = target / "cmd" / "kueue" / "main.go"
    text = main.read_text(encoding="utf-8")
    if METRICS_FOLDER not in text:
        raise BuildFailed(f"{main} does not name {METRICS_FOLDER}")
    main.write_text(text.replace(METRICS_FOLDER, f'os.Getenv("{METRICS_VARIABLE}")'), encoding="utf-8")
    return target
