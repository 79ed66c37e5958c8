"""The edge of the process: options in, a performance, an exit status out.

Exit status: 0 for a demo that showed all it is to show (and for Ctrl-C under `--keep`), 1 for one that did
not, 2 for what cannot work as called or where a tool is missing, 130 when interrupted. An error is one line;
the end of a log may stand above it.
"""

from __future__ import annotations

import shlex
import signal
from types import FrameType
from typing import NoReturn

import click

from e2e.controlplane import ControlPlane
from e2e.controlplane.binaries import kubernetes_version, to_stderr
from e2e.controlplane.ending import run_to_the_end
from e2e.controlplane.waiting import pause_briefly
from e2e.demo.mix import Mix, UnfitMix
from e2e.demo.screen import Screen
from e2e.demo.stage import Stage, set_up
from e2e.demo.story import Story
from e2e.ledgerwatch import witnessed_ledgers
from e2e.openrl import OpenRL

WATCH_INTERVAL_SECONDS = 0.5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--nodes", type=click.IntRange(1, 10), default=3, show_default=True, help="Number of nodes")
@click.option("--gpus", type=click.IntRange(1, 8), default=2, show_default=True, help="GPUs on each node")
@click.option(
    "--limit",
    type=click.IntRange(1, 8),
    default=2,
    show_default=True,
    help="The controller's --max-seats-per-claim",
)
@click.option("--workers", type=click.IntRange(1), help="Number of Workloads  [default: some more than fit]")
@click.option("--keep", is_flag=True, help="Keep everything running at the end, until Ctrl-C")
def cli(*, nodes: int, gpus: int, limit: int, workers: int | None, keep: bool) -> None:
    """Place a mix of workers on a real Kubernetes control plane and watch the seats fill.

    The programs of the control plane are built on first use, which takes some minutes and needs Go.
    """
    try:
        mix = Mix.for_fleet(nodes=nodes, gpus=gpus, limit=limit, workers=workers)
    except UnfitMix as error:
        raise click.UsageError(str(error)) from error
    screen = Screen.on_standard_output(devices=nodes * gpus, limit=limit)
    screen.say(
        f"{mix.total} workers come to {nodes} nodes of {gpus} GPUs, on a real Kubernetes "
        f"{kubernetes_version()} with kwok in place of kubelets"
    )
    with set_up(nodes=nodes, gpus=gpus, limit=limit, progress=screen.say) as stage:
        openrl = OpenRL(stage.plane.api)
        story = Story(openrl, mix, screen, limit=limit, require_alive=stage.require_alive)
        with witnessed_ledgers(stage.plane) as witness, screen:
            ending = story.perform(witness)
        screen.summary(ending)
        if keep:
            screen.say(_instructions(stage.plane))
            _stay(stage)
        stage.stop_controller()
    screen.say("Everything was stopped and removed.")


def main() -> NoReturn:
    """Run the command line; turn every expected error into one line and an exit status."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    run_to_the_end(
        cli,
        program="python -m e2e.demo",
        interrupted="interrupted; everything was stopped and removed",
    )


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Interrupt once; from then on nothing may disturb the cleaning up, which is short."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _stay(stage: Stage) -> None:
    try:
        while True:
            stage.require_alive()
            pause_briefly(WATCH_INTERVAL_SECONDS)
    except KeyboardInterrupt:
        to_stderr("Stopping")


def _instructions(plane: ControlPlane) -> str:
    return "\n".join(
        [
            "",
            f"Kubernetes {kubernetes_version()} and the controller keep running. In another terminal:",
            "",
            f"  export KUBECONFIG={shlex.quote(str(plane.admin_kubeconfig))}",
            f"  alias kubectl={shlex.quote(str(plane.kubectl_path))}",
            "  kubectl get owl,ocl -n openrl-system -o wide",
            "",
            "Ctrl-C stops everything.",
        ]
    )
