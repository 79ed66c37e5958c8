"""The edge of the process: options in, a performance on a real control plane, an exit status out.

Exit status: 0 for a demo that showed all it is to show (and for Ctrl-C under `--serve`), 1 for one that did
not, 2 for what cannot work as called or where a tool is missing, 130 when interrupted. An error is one line;
the end of a log may stand above it.
"""

from __future__ import annotations

import shlex
import signal
from types import FrameType
from typing import NoReturn

import anyio
import click

from e2e.controlplane import ControlPlane, ControlPlaneError
from e2e.controlplane.processes.binaries import kubernetes_version
from e2e.demo.stage import RealStage, set_up
from simulation.command_line.exit_status import run_and_exit
from simulation.demo.cli import INTERRUPTED_LINE
from simulation.demo.performance import SIGNALS, perform, stay, until_interrupted
from simulation.demo.plan import DemoPlan, demo_command
from simulation.demo.screen import Screen
from simulation.demo.stage import DemoFailed, Interrupted


@demo_command("what cannot work as called or where a tool is missing")
def cli(*, serve: bool, **options: int) -> None:
    """Place a mix of workers on a real Kubernetes control plane and watch the seats fill.

    The programs of the control plane are built on first use, which takes some minutes and needs Go.
    """
    plan = DemoPlan.checked(**options)
    screen = Screen.on_standard_output(devices=plan.devices, limit=plan.limit)
    screen.say(f"{plan}, on a real Kubernetes {kubernetes_version()} with kwok in place of kubelets")
    with set_up(plan, screen.say) as stage:
        _play(stage, plan, screen, serve=serve)
        stage.stop_controller()
    screen.say("Everything was stopped and removed.")


def main() -> NoReturn:
    """Run the command line; turn every expected error into one line and an exit status."""
    _take_signals()
    run_and_exit(
        cli,
        program="python -m e2e.demo",
        expected=(ControlPlaneError, DemoFailed, OSError),
        interrupted=INTERRUPTED_LINE,
    )


def _play(stage: RealStage, plan: DemoPlan, screen: Screen, *, serve: bool) -> None:
    shown = False

    async def act() -> None:
        nonlocal shown
        await perform(stage, plan, screen)
        if serve:
            screen.say(_instructions(stage.plane))
            shown = True
            await stay(stage)

    try:
        anyio.run(until_interrupted, act)
    except Interrupted:
        if not shown:
            raise click.Abort from None
    finally:
        _take_signals()  # the event loop had them


def _take_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Interrupt once; from then on nothing may disturb the cleaning up, which is short."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _instructions(plane: ControlPlane) -> str:
    return "\n".join(
        [
            "",
            f"Kubernetes {kubernetes_version()} and the controller keep running. In another terminal:",
            "",
            f"  export KUBECONFIG={shlex.quote(str(plane.admin_kubeconfig))}",
            f"  alias kubectl={shlex.quote(str(plane.kubectl_path))}",
            "  kubectl get owl,ocl -n openrl-system -o wide",
            "  kubectl drain gpu-node-0",
            "",
            "Ctrl-C stops everything.",
        ]
    )
