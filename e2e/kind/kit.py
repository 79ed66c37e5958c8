"""The kit, a folder outside the project that creates kind clusters without a registry.

Only these commands are used: `setup`, `dockerd env|stop`, `cluster create|delete`, `images/base-image`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.errors import ControlPlaneError
from e2e.kind.tools import Tools, own_environment

SETUP_SECONDS = 45 * 60  # the first run compiles Kubernetes
STEP_SECONDS = 300
BASE_SUITE = "bookworm"  # has the same Python version as the default base of the Dockerfile

# Each gets the path of `dockerd` as $0. Its `env` command prints shell commands that set the environment.
PRINT_ENVIRONMENT = 'set -e; settings=$("$0" env); eval "$settings"; exec env -0'
STOP_IF_IDLE = (
    'set -e; settings=$("$0" env); eval "$settings"; test -z "$(docker ps --quiet)"; exec "$0" stop'
)


@dataclass(frozen=True)
class Kit:
    """A kit."""

    folder: Path

    def runs(self) -> bool:
        """Whether its Docker daemon (or the host's) is running."""
        try:
            self.tools(None)
        except ControlPlaneError:
            return False
        return True

    def setup(self) -> None:
        """Build missing parts and start the daemon. This takes a second if there is nothing to build."""
        Tools(own_environment()).run(self.folder / "setup", timeout_seconds=SETUP_SECONDS, shown=True)

    def tools(self, process_group: int | None) -> Tools:
        """Return the environment in which its programs and daemon are found."""
        dockerd = str(self.folder / "dockerd")
        printed = Tools(own_environment()).run(
            "bash", "-c", PRINT_ENVIRONMENT, dockerd, timeout_seconds=STEP_SECONDS
        )
        pairs = (entry.partition("=") for entry in printed.split("\0") if entry)
        return Tools({name: value for name, _, value in pairs}, process_group)

    def python_base(self, tools: Tools) -> str:
        """Build the Python base image if it is missing, and return its name."""
        program = self.folder / "images" / "base-image"
        return tools.run(
            program, "python3", "--suite", BASE_SUITE, timeout_seconds=STEP_SECONDS, shown=True
        ).strip()

    def create(self, tools: Tools, name: str, *, workers: int) -> Path:
        """Create a cluster whose driver publishes no GPUs yet, and return the path of its kubeconfig."""
        printed = tools.run(
            self.folder / "cluster",
            *("create", name, "--workers", str(workers), "--gpus", "0"),
            timeout_seconds=STEP_SECONDS,
            shown=True,
        )
        return Path(printed.strip())

    def stop_command(self) -> list[str]:
        """Return the command that stops its daemon, unless containers are running."""
        return ["bash", "-c", STOP_IF_IDLE, str(self.folder / "dockerd")]

    def delete_command(self, name: str) -> list[str]:
        return [str(self.folder / "cluster"), "delete", name]
