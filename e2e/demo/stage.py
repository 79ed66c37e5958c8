"""The stage on a real control plane: an empty fleet, the installed manifests, and a running controller.

Invariant: when the context ends or this process dies, all processes are stopped and their files removed. Only
the built programs are kept for the next run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane import ControlPlane, ControlPlaneError, Fleet, NodeShape, Options
from e2e.controlplane.processes.go import Progress
from e2e.demo.errors import ControllerFailed
from e2e.harness.ledger_watch import LedgerWitness, witnessed_ledgers
from e2e.harness.program import ControllerError, ControllerProcess, running_controller
from simulation.demo.handoff import Revision
from simulation.demo.plan import DemoPlan
from simulation.demo.stage import DemoFailed

LOG_LINES = 10


@dataclass(frozen=True)
class RealStage:
    """See `simulation.demo.stage.Stage`. A `kubectl` watch observes the ledgers."""

    plane: ControlPlane
    controller: ControllerProcess
    witness: LedgerWitness

    @property
    def kubeconfig(self) -> Path:
        """See `Stage`."""
        return self.plane.admin_kubeconfig

    def revisions(self) -> list[Revision]:
        """See `Stage`."""
        return [Revision(seen.ledger, seen.seats, seen.seen_seconds) for seen in self.witness.revisions]

    def require_alive(self) -> None:
        """See `Stage`. Raises `ControlPlaneError` if a process has ended."""
        self.plane.require_running()
        status = self.controller.process.poll()
        if status is not None:
            raise ControllerFailed(f"the controller ended with status {status}")

    def stop_controller(self) -> None:
        """Stop the controller with SIGTERM. Raises `ControllerFailed` if it exits with an error."""
        status = self.controller.stop()
        if status != 0:
            raise ControllerFailed(f"the controller stopped with status {status} instead of 0")


@contextmanager
def real_stage(plan: DemoPlan, progress: Progress) -> Iterator[RealStage]:
    """Build missing programs, start everything, and stop it at the end."""
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane.start(Options(progress=progress)))
        plane.create_nodes(
            Fleet(nodes=plan.nodes, shape=NodeShape(gpus=plan.gpus, gpu_memory=plan.gpu_memory))
        )
        plane.install()
        log = plane.folder / "controller.log"
        flags = {"--max-seats-per-claim": str(plan.limit)}
        progress(f"Starting open-rl-scheduler with the shipped rights and --max-seats-per-claim={plan.limit}")
        try:
            controller = stack.enter_context(running_controller(plane, log, flags))
            yield RealStage(plane, controller, stack.enter_context(witnessed_ledgers(plane)))
        except ControllerError as error:
            raise ControllerFailed(" ".join(str(error).split())) from error
        except (ControlPlaneError, DemoFailed) as error:  # the end of the log may show the cause
            for line in log.read_text().splitlines()[-LOG_LINES:] if log.exists() else ():
                error.add_note(f"controller: {line}")
            raise
