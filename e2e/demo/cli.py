"""The command line of the demo on a real control plane.

Exit status: 0 for a complete demo (and for Ctrl-C under `--serve`), 1 for a failed one, 2 for invalid usage
or a missing tool, 130 when interrupted. An error is one line. The last lines of a log may precede it.
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
from e2e.demo.stage import RealStage, real_stage
from simulation.command_line.exit_status import run_and_exit
from simulation.demo.cli import INTERRUPTED_LINE
from simulation.demo.plan import DemoPlan, demo_command
from simulation.demo.runner import SIGNALS, run_story, until_interrupted, wait_for_interrupt
from simulation.demo.screen import Screen
from simulation.demo.stage import DemoFailed, Interrupted


@demo_command("invalid usage or a missing tool")
def cli(*, serve: bool, **options: int) -> None:
    """Show how workers share the GPUs of a simulated fleet on a real Kubernetes control plane.

    The first run builds the control plane, which takes some minutes and needs Go.
    """
    plan = DemoPlan.checked(**options)
    screen = Screen.on_standard_output(devices=plan.devices, limit=plan.limit)
    screen.show(f"{plan}, on a real Kubernetes {kubernetes_version()} with kwok instead of kubelets")
    with real_stage(plan, screen.show) as stage:
        _play(stage, plan, screen, serve=serve)
        stage.stop_controller()
    screen.show("Stopped and removed everything.")


def main() -> NoReturn:
    """Run the command line and exit. An expected error is printed as one line."""
    _handle_signals()
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
        await run_story(stage, plan, screen)
        if serve:
            screen.show(_instructions(stage.plane))
            shown = True
            await wait_for_interrupt(stage)

    try:
        anyio.run(until_interrupted, act)
    except Interrupted:
        if not shown:
            raise click.Abort from None
    finally:
        _handle_signals()  # the event loop has replaced the handlers


def _handle_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Interrupt once, and ignore further signals, so that they do not disturb the cleanup."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _instructions(plane: ControlPlane) -> str:
    return "\n".join(
        [
            "",
            f"Kubernetes {kubernetes_version()} and the controller are still running. In another terminal:",
            "",
            f"  export KUBECONFIG={shlex.quote(str(plane.admin_kubeconfig))}",
            f"  alias kubectl={shlex.quote(str(plane.kubectl_path))}",
            "  kubectl get owl,ocl -n openrl-system -o wide",
            "  kubectl drain gpu-node-0",
            "",
            "Press Ctrl-C to stop everything.",
        ]
    )
