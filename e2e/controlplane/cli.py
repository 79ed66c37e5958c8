"""The command line of the control plane: build it, run it until Ctrl-C, remove the builds.

Exit status: 0 after Ctrl-C or SIGTERM, 1 after a failure, 2 for a usage error, 130 for an interrupt during
start. An error is one line. The last lines of a component's log may precede it.
"""

import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from e2e.controlplane.cluster import MANIFESTS
from e2e.controlplane.errors import InvalidArgument
from e2e.controlplane.exit import run_cli
from e2e.controlplane.fleet import DEVICES_PER_SLICE_MAX, Fleet, NodeShape
from e2e.controlplane.local import ControlPlane, Options
from e2e.controlplane.processes.binaries import clean_cache, ensure_binaries, kubernetes_version
from e2e.controlplane.processes.go import to_stderr
from e2e.controlplane.waiting import pause_briefly
from simulation.command_line.values import UniqueOptionsCommand, WholeNumber, not_allowed

WATCH_INTERVAL_SECONDS = 0.5

_QUANTITY = re.compile(r"\d+(\.\d+)?(m|[kMGTPE]|[KMGTPE]i)?")


class Quantity(click.ParamType[str]):
    """A Kubernetes quantity such as 80Gi, checked here for a clear error message."""

    name = "quantity"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value unchanged."""
        if not _QUANTITY.fullmatch(value):
            self.fail(not_allowed(value, "a quantity such as 64 or 80Gi"), param, ctx)
        return value


QUANTITY = Quantity()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """A real Kubernetes control plane on this machine, without containers and without GPUs."""


@cli.command()
def build() -> None:
    """Build the components once (about 6 minutes) and print their folder."""
    click.echo(ensure_binaries().folder)


@cli.command()
def clean() -> None:
    """Remove all builds, but not the cache of Go."""
    if not clean_cache():
        to_stderr("Nothing was built")


@cli.command(cls=UniqueOptionsCommand)
@click.option("--nodes", type=WholeNumber(0, 5000), default=3, show_default=True, help="Number of nodes")
@click.option(
    "--gpus",
    type=WholeNumber(0, DEVICES_PER_SLICE_MAX),
    default=2,
    show_default=True,
    help="GPUs on each node",
)
@click.option("--gpu-memory", type=QUANTITY, default="80Gi", show_default=True, help="Memory of each GPU")
@click.option("--host-memory", type=QUANTITY, default="512Gi", show_default=True, help="Memory of each node")
@click.option("--cpu", type=QUANTITY, default="64", show_default=True, help="CPUs of each node")
@click.option("--pods", type=WholeNumber(1), default=110, show_default=True, help="Pod slots of each node")
@click.option(
    "--install/--no-install",
    default=True,
    show_default=True,
    help="Apply the manifests: CRDs, namespaces, rights. No controller runs",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Additional new file for the administrator's kubeconfig (removed at the end)",
)
@click.option("--keep", is_flag=True, help="Keep the run folder (logs, audit log, data)")
def up(
    *,
    nodes: int,
    gpus: int,
    gpu_memory: str,
    host_memory: str,
    cpu: str,
    pods: int,
    install: bool,
    kubeconfig_out: Path | None,
    keep: bool,
) -> None:
    """Start a control plane with a fleet of GPU nodes, and run it until Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)
    shape = NodeShape(gpus=gpus, gpu_memory=gpu_memory, host_memory=host_memory, cpu=cpu, pods=pods)
    with _reserved(kubeconfig_out), ControlPlane.start(Options(keep=keep)) as plane:
        plane.create_nodes(Fleet(nodes=nodes, shape=shape))
        if install:
            plane.install(MANIFESTS)
        if kubeconfig_out:
            kubeconfig_out.write_bytes(plane.admin_kubeconfig.read_bytes())
        fleet = f"{nodes} nodes of {gpus} GPUs with {gpu_memory}"
        click.echo(_instructions(plane, kubeconfig_out or plane.admin_kubeconfig, fleet, installed=install))
        try:
            while True:
                plane.require_running()
                pause_briefly(WATCH_INTERVAL_SECONDS)
        except KeyboardInterrupt:
            to_stderr("Stopping")


def main() -> NoReturn:
    """Run the command line. Each expected error becomes one line and an exit status."""
    run_cli(cli, program="python -m e2e.controlplane")


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Treat SIGTERM as Ctrl-C, so that all components are stopped."""
    raise KeyboardInterrupt


@contextmanager
def _reserved(target: Path | None) -> Iterator[None]:
    """Create a new file for a kubeconfig, and remove it at the end. Existing files are never overwritten."""
    if target is None:
        yield
        return
    try:
        target.touch(mode=0o600, exist_ok=False)
    except FileExistsError as error:
        raise InvalidArgument(f"--kubeconfig-out {target}: exists and is not overwritten") from error
    except OSError as error:
        raise InvalidArgument(f"--kubeconfig-out {target}: {error.strerror}") from error
    try:
        yield
    finally:
        target.unlink(missing_ok=True)


def _instructions(plane: ControlPlane, kubeconfig: Path, fleet: str, *, installed: bool) -> str:
    lines = [
        f"Kubernetes {kubernetes_version()} with {fleet}. In another terminal:",
        "",
        f"  export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}",
        f"  alias kubectl={shlex.quote(str(plane.kubectl_path))}",
        "  kubectl get nodes,resourceslices",
        "",
    ]
    if installed:
        controller = shlex.quote(str(plane.controller_kubeconfig))
        program = shlex.quote(str(Path(sys.executable).with_name("open-rl-scheduler")))
        lines += [
            "No Deployment starts Pods here. To run the controller with the rights of its ServiceAccount:",
            "",
            f"  {program} --leader-elect=false --kubeconfig={controller}",
            "",
        ]
    return "\n".join([*lines, "Ctrl-C stops everything."])
