"""The edge of the process: options in, a performance, an exit status out.

Exit status: 0 for a demo that showed all it is to show (and for Ctrl-C under `--serve`), 1 for one that did
not, 2 for what cannot work as called, 130 when interrupted. An error is one line; the end of a log may stand
above it.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence

import anyio
import click

from controller.config.settings import PROGRAM
from simulation.command_line import exit_status
from simulation.demo.embedded import EmbeddedStage, embedded_stage
from simulation.demo.performance import perform, stay, until_interrupted
from simulation.demo.plan import DemoPlan, demo_command
from simulation.demo.screen import Screen
from simulation.demo.stage import DemoFailed, Interrupted

INTERRUPTED_LINE = "interrupted; everything was stopped and removed"


@demo_command("what cannot work as called")
def cli(*, serve: bool, **options: int) -> None:
    """Place a mix of workers on a small cluster in this process, and watch the seats fill.

    It needs no cluster, no containers and no GPUs: the API server, the scheduler and the kubelets are models
    of real ones, and the controller is the real program.
    """
    plan = DemoPlan.checked(**options)
    screen = Screen.on_standard_output(devices=plan.devices, limit=plan.limit)
    screen.say(f"{plan}, in a cluster in memory; the controller runs with --max-seats-per-claim={plan.limit}")
    anyio.run(_play, plan, screen, serve)
    screen.say("Everything was stopped and removed.")


async def _play(plan: DemoPlan, screen: Screen, serve: bool) -> None:
    shown = False

    async def act() -> None:
        nonlocal shown
        async with embedded_stage(plan) as stage:
            await perform(stage, plan, screen)
            if serve:
                screen.say(_instructions(stage))
                shown = True
                await stay(stage)

    try:
        await until_interrupted(act)
    except Interrupted:
        if not shown:
            raise click.Abort from None


def _instructions(stage: EmbeddedStage) -> str:
    lines = [
        "",
        "The cluster and the controller keep running. In another terminal:",
        "",
        f"  export KUBECONFIG={shlex.quote(str(stage.kubeconfig))}",
        "  kubectl get owl,ocl -o wide",
        "  kubectl drain gpu-node-0",
        "",
    ]
    if shutil.which("kubectl") is None:
        path = "/apis/openrl.io/v1alpha1/workloads"
        lines += ["There is no kubectl on your PATH; curl will do to look:", ""]
        lines += [f"  curl -s {stage.cluster.url}{path}", ""]
    return "\n".join([*lines, "Ctrl-C stops everything."])


def run(arguments: Sequence[str], *, program: str = f"{PROGRAM} demo") -> int:
    """Run the command line and return its exit status; every expected error becomes one line."""
    return exit_status.run(
        cli, arguments, program=program, expected=(DemoFailed, OSError), interrupted=INTERRUPTED_LINE
    )
