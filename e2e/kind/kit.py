"""The kit that makes kind clusters where no registry can be reached: a folder outside of the project.

Only its commands are used: `setup`, `dockerd env|stop`, `cluster create|delete`, `images/base-image`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.errors import ControlPlaneError
from e2e.kind.tools import Tools, own_environment

SETUP_SECONDS = 45 * 60  # it compiles Kubernetes the first time
STEP_SECONDS = 300
BASE_SUITE = "bookworm"  # has the Python that the Dockerfile's own base has

# Each is given the path of `dockerd`, which prints what a shell needs to evaluate.
PRINT_ENVIRONMENT = 'set -e; settings=$("$0" env); eval "$settings"; exec env -0'
STOP_IF_IDLE = (
    'set -e; settings=$("$0" env); eval "$settings"; test -z "$(docker ps --quiet)"; exec "$0" stop'
)


@dataclass(frozen=True)
class Kit:
    """The kit in a folder."""

    folder: Path

    def runs(self) -> bool:
        """Whether its Docker daemon (or the host's) answers already."""
        try:
            self.tools(None)
        except ControlPlaneError:
            return False
        return True

    def setup(self) -> None:
        """Build what is missing and start the daemon; a second when nothing is to do."""
        Tools(own_environment()).run(self.folder / "setup", timeout_seconds=SETUP_SECONDS, shown=True)

    def tools(self, process_group: int | None) -> Tools:
        """Return the environment that reaches its daemon and programs."""
        dockerd = str(self.folder / "dockerd")
        printed = Tools(own_environment()).run(
            "bash", "-c", PRINT_ENVIRONMENT, dockerd, timeout_seconds=STEP_SECONDS
        )
        pairs = (entry.partition("=") for entry in printed.split("\0") if entry)
        return Tools({name: value for name, _, value in pairs}, process_group)

    def python_base(self, tools: Tools) -> str:
        """Make (once) and name an image that has Python and nothing of ours."""
        program = self.folder / "images" / "base-image"
        return tools.run(
            program, "python3", "--suite", BASE_SUITE, timeout_seconds=STEP_SECONDS, shown=True
        ).strip()

    def create(self, tools: Tools, name: str, *, workers: int) -> Path:
        """Make a cluster whose driver publishes no GPUs yet; return its kubeconfig."""
        printed = tools.run(
            self.folder / "cluster",
            *("create", name, "--workers", str(workers), "--gpus", "0"),
            timeout_seconds=STEP_SECONDS,
            shown=True,
        )
        return Path(printed.strip())

    def stop_command(self) -> list[str]:
        """What stops its daemon, unless containers run there by now."""
        return ["bash", "-c", STOP_IF_IDLE, str(self.folder / "dockerd")]

    def delete_command(self, name: str) -> list[str]:
        return [str(self.folder / "cluster"), "delete", name]
