"""Fixtures that the scenarios share: the workers' namespace, and controllers to start in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.controlplane import Cluster
from e2e.controlplane.errors import InvalidArgument
from e2e.controlplane.provider import Provider, chosen
from e2e.kind.cluster import KindCluster
from e2e.kind.deployment import running_deployment
from e2e.openrl import OpenRL
from e2e.program import Running, running_controller

Start = Callable[[Mapping[str, str]], Running]

KIND_TEST_SECONDS = 300
EVERYWHERE = frozenset({"test_drain.py", "test_placement.py"})


def _on_kind() -> bool:
    try:
        return chosen(os.environ) is Provider.KIND
    except InvalidArgument:  # reported once a test needs a cluster
        return False


def _elsewhere() -> list[str]:
    """The modules that this provider leaves out: `test_kind_*` need containers, most others their absence.

    They take a control plane apart, or furnish nodes by the dozen. Named on the command line, any module is
    run, and fails or skips where it cannot.
    """
    modules = sorted(Path(__file__).parent.glob("test_*.py"))
    for_kind = {path for path in modules if path.name.startswith("test_kind_")}
    if not _on_kind():
        return [path.name for path in modules if path in for_kind]
    return [path.name for path in modules if path not in for_kind and path.name not in EVERYWHERE]


collect_ignore = _elsewhere()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests on kind more time: the first one waits for the cluster, all of them for containers."""
    if _on_kind():
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(KIND_TEST_SECONDS))


@pytest.fixture
def openrl(cluster: Cluster) -> OpenRL:
    return OpenRL(cluster.api, pace=cluster.pace, worker_image=cluster.worker_image)


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start controllers that end with the test: in the cluster where it can, else as a process here."""
    with ExitStack() as stack:

        def run(flags: Mapping[str, str]) -> Running:
            if isinstance(cluster, KindCluster):
                return stack.enter_context(running_deployment(cluster, tmp_path, flags))
            return stack.enter_context(running_controller(cluster, tmp_path / "controller.log", flags))

        yield run
