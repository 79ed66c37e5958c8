"""A kind cluster with three nodes and the images of the scenarios.

`prepared_kind` prepares Docker, the images and a guard, and yields a function that creates the cluster. If
this process dies, the guard deletes the cluster, and stops the Docker daemon if this process started it. It
never stops a daemon that was already running or that has other containers.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from e2e.controlplane.cluster import WORKER_IMAGE
from e2e.controlplane.errors import MissingTool
from e2e.controlplane.external import ExternalCluster, NodeSetup
from e2e.controlplane.nodes import CONTROL_PLANE
from e2e.controlplane.processes.go import to_stderr
from e2e.controlplane.processes.guard import Guard
from e2e.controlplane.waiting import wait_until
from e2e.kind.image import build_image
from e2e.kind.kit import Kit
from e2e.kind.settings import DEFAULT_KIT, KIT_VARIABLE, KindSettings
from e2e.kind.tools import ToolFailed, Tools, own_environment

FOLDER = Path(__file__).parent
OVERLAY = FOLDER / "overlay"
CONFIG = FOLDER / "config.yaml"
GPU_DRIVER = FOLDER / "gpu_driver.yaml"

CONTROLLER_IMAGE = "open-rl-scheduler:e2e"  # the name in the overlay
GPU_DRIVER_IMAGE = "gpu-driver:e2e"  # the name in gpu_driver.yaml

WORKERS = 2
STEP_SECONDS = 300
DELETE_SECONDS = 120


class KindCluster(ExternalCluster):
    """A cluster for these scenarios alone: a test may change its nodes, images and Deployment."""

    manifests = OVERLAY

    def __init__(self, tools: Tools, name: str, kubeconfig: Path, stack: ExitStack) -> None:
        super().__init__(kubeconfig, node_setup=NodeSetup.LABELS, worker_image=WORKER_IMAGE)
        self.tools = tools
        self.name = name
        self._stack = stack

    def __repr__(self) -> str:
        return f"<KindCluster {self.name}>"

    @property
    def kubectl_path(self) -> Path:
        return self.tools.path("kubectl")

    def kubectl_environment(self) -> dict[str, str]:
        return dict(self.tools.environment)

    def on_node(self, node: str, *command: str) -> str:
        """Run a program on a node (a container) and return its output."""
        return self.tools.run("docker", "exec", node, *command, timeout_seconds=STEP_SECONDS)

    def close(self) -> None:
        super().close()
        self._stack.close()


@contextmanager
def prepared_kind(settings: KindSettings) -> Iterator[Callable[[], KindCluster]]:
    """Prepare Docker and the controller's image; yield a function that creates the cluster."""
    name = f"openrl-e2e-{secrets.token_hex(3)}"
    kit = Kit(settings.kit) if settings.kit else None
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="openrl-kind-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        tools = _with_kit(stack, kit, name, folder) if kit else _without_kit(stack, name, folder)
        started = time.monotonic()
        _controller_image(tools, kit, settings.controller_image)
        to_stderr(f"{CONTROLLER_IMAGE} is ready after {time.monotonic() - started:.0f} s")
        # Run it again at the end, normally without effect: an interrupt may have stopped the first run.
        stack.callback(_delete, tools, _delete_command(kit, name))
        yield partial(_create, tools, kit, name, folder, settings)


def _with_kit(stack: ExitStack, kit: Kit, name: str, folder: Path) -> Tools:
    ours = not kit.runs()
    commands = [_delete_command(kit, name), *([kit.stop_command()] if ours else [])]
    process_group = _guarded(stack, folder, commands)
    if ours:
        # Before setup, so that the daemon is stopped even if setup is interrupted.
        stack.callback(_stop_daemon, kit)
    kit.setup()
    return kit.tools(process_group)


def _without_kit(stack: ExitStack, name: str, folder: Path) -> Tools:
    tools = Tools(own_environment())
    tools.path("kind")
    if not tools.docker_answers():
        raise MissingTool(
            "the kind scenarios need a Docker daemon (`docker version` fails), or a kit that starts one"
            f" ({KIT_VARIABLE}, or {DEFAULT_KIT})"
        )
    return Tools(tools.environment, _guarded(stack, folder, [_delete_command(None, name)]))


def _guarded(stack: ExitStack, folder: Path, commands: list[list[str]]) -> int:
    guard = Guard(folder, commands=commands)

    def finish(kind: type[BaseException] | None, _error: BaseException | None, _trace: object) -> None:
        """Leave the cleanup to the guard if this process was interrupted during its own."""
        (guard.dismiss if kind is None else guard.abandon)()

    stack.push(finish)
    return guard.process_group


def _stop_daemon(kit: Kit) -> None:
    try:
        _run(Tools(own_environment()), kit.stop_command())
    except ToolFailed:
        to_stderr("The Docker daemon was not stopped: it runs other containers, or never started")


def _controller_image(tools: Tools, kit: Kit | None, given: str) -> None:
    if given:
        tools.run("docker", "tag", given, CONTROLLER_IMAGE, timeout_seconds=STEP_SECONDS)
    elif kit:
        build_image(tools, CONTROLLER_IMAGE, base=kit.python_base(tools), wheels=True)
    else:
        build_image(tools, CONTROLLER_IMAGE)


def _delete_command(kit: Kit | None, name: str) -> list[str]:
    return kit.delete_command(name) if kit else ["kind", "delete", "cluster", "--name", name]


def _create(tools: Tools, kit: Kit | None, name: str, folder: Path, settings: KindSettings) -> KindCluster:
    """Create the cluster, and delete it if a later step fails."""
    started = time.monotonic()
    with ExitStack() as undo:
        undo.callback(_delete, tools, _delete_command(kit, name))
        if kit:
            kubeconfig = kit.create(tools, name, workers=WORKERS)
        else:
            kubeconfig = _create_plain(tools, name, folder, settings)
        _load(tools, name, {settings.worker_image: WORKER_IMAGE}, CONTROLLER_IMAGE)
        cluster = KindCluster(tools, name, kubeconfig, undo.pop_all())
    to_stderr(f"Cluster {name} is ready after {time.monotonic() - started:.0f} s")
    return cluster


def _create_plain(tools: Tools, name: str, folder: Path, settings: KindSettings) -> Path:
    """Create a cluster like the kit's: Pods may run on every node, and a driver publishes no GPUs yet."""
    kubeconfig = folder / "kubeconfig"
    options = ["--config", str(settings.config or CONFIG), "--kubeconfig", str(kubeconfig), "--wait", "180s"]
    if settings.node_image:
        options += ["--image", settings.node_image]
    tools.run("kind", "create", "cluster", "--name", name, *options, timeout_seconds=STEP_SECONDS)
    _load(tools, name, {settings.gpu_driver_image: GPU_DRIVER_IMAGE})
    kubectl = partial(tools.run, "kubectl", "--kubeconfig", str(kubeconfig), timeout_seconds=STEP_SECONDS)
    kubectl("taint", "nodes", f"--selector={CONTROL_PLANE}", f"{CONTROL_PLANE}-")
    kubectl("apply", "--filename", str(GPU_DRIVER))
    kubectl("rollout", "status", "--namespace=kube-system", "daemonset/gpu-driver", "--timeout=120s")
    return kubeconfig


def _load(tools: Tools, name: str, renamed: dict[str, str], *images: str) -> None:
    """Load images on every node, some under another name. A missing image is pulled."""
    for image, new_name in renamed.items():
        if not tools.run("docker", "images", "--quiet", image, timeout_seconds=STEP_SECONDS).strip():
            tools.run("docker", "pull", "--quiet", image, timeout_seconds=STEP_SECONDS)
        tools.run("docker", "tag", image, new_name, timeout_seconds=STEP_SECONDS)
    wanted = [*renamed.values(), *images]
    tools.run("kind", "load", "docker-image", "--name", name, *wanted, timeout_seconds=STEP_SECONDS)


def _delete(tools: Tools, command: list[str]) -> None:
    """Delete the cluster. Docker refuses this while an earlier, interrupted deletion is running."""

    def deleted() -> bool:
        try:
            _run(tools, command)
        except ToolFailed:
            return False
        return True

    wait_until(deleted, " ".join(command), timeout_seconds=DELETE_SECONDS, interval_seconds=2)


def _run(tools: Tools, command: list[str]) -> None:
    program, *arguments = command
    tools.run(Path(program) if "/" in program else program, *arguments, timeout_seconds=STEP_SECONDS)
