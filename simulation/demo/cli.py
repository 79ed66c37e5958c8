"""The command line of the demo.

Exit status: 0 for a complete demo (and for Ctrl-C under `--serve`), 1 for a failed one, 2 for invalid usage,
130 when interrupted. An error is one line. The last lines of the controller's log may precede it.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence

import anyio
import click

from controller.config.flags import PROGRAM
from simulation.command_line import exit_status
from simulation.demo.embedded import EmbeddedStage, embedded_stage
from simulation.demo.plan import DemoPlan, demo_command
from simulation.demo.runner import run_story, until_interrupted, wait_for_interrupt
from simulation.demo.screen import Screen
from simulation.demo.stage import DemoFailed, Interrupted

INTERRUPTED_LINE = "interrupted; stopped and removed everything"


@demo_command("invalid usage")
def cli(*, serve: bool, **options: int) -> None:
    """Show how workers share the GPUs of a small simulated cluster, in a few seconds.

    You need no cluster, no containers and no GPUs. API server, scheduler and kubelets are simulated in this
    process; the controller is the real program.
    """
    plan = DemoPlan.checked(**options)
    screen = Screen.on_standard_output(devices=plan.devices, limit=plan.limit)
    screen.show(f"{plan}, in an in-memory cluster; controller flag --max-seats-per-claim={plan.limit}")
    anyio.run(_play, plan, screen, serve)
    screen.show("Stopped and removed everything.")


async def _play(plan: DemoPlan, screen: Screen, serve: bool) -> None:
    shown = False

    async def act() -> None:
        nonlocal shown
        async with embedded_stage(plan) as stage:
            await run_story(stage, plan, screen)
            if serve:
                screen.show(_instructions(stage))
                shown = True
                await wait_for_interrupt(stage)

    try:
        await until_interrupted(act)
    except Interrupted:
        if not shown:
            raise click.Abort from None


def _instructions(stage: EmbeddedStage) -> str:
    lines = [
        "",
        "The cluster and the controller are still running. In another terminal:",
        "",
        f"  export KUBECONFIG={shlex.quote(str(stage.kubeconfig))}",
        "  kubectl get owl,ocl -o wide",
        "  kubectl drain gpu-node-0",
        "",
    ]
    if shutil.which("kubectl") is None:
        path = "/apis/openrl.io/v1alpha1/workloads"
        lines += ["kubectl is not on your PATH. To list the Workloads without it:", ""]
        lines += [f"  curl -s {stage.cluster.url}{path}", ""]
    return "\n".join([*lines, "Press Ctrl-C to stop everything."])


def run(arguments: Sequence[str], *, program: str = f"{PROGRAM} demo") -> int:
    """Run the command line and return its exit status. An expected error is printed as one line."""
    return exit_status.run(
        cli, arguments, program=program, expected=(DemoFailed, OSError), interrupted=INTERRUPTED_LINE
    )
