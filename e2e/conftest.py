"""Fixtures of the scenarios: the workers' namespace, and controllers that a test can start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.controlplane import Cluster
from e2e.controlplane.errors import InvalidArgument
from e2e.controlplane.provider import Provider, selected_provider
from e2e.harness.program import Running, running_controller
from e2e.harness.workloads import WorkloadClient
from e2e.kind.cluster import KindCluster
from e2e.kind.deployment import running_deployment

Start = Callable[[Mapping[str, str]], Running]

HERE = Path(__file__).parent

KIND_TEST_SECONDS = 300
EVERYWHERE = frozenset({"test_drain.py", "test_placement.py"})


def _on_kind() -> bool:
    try:
        return selected_provider(os.environ) is Provider.KIND
    except InvalidArgument:  # reported once a test needs a cluster
        return False


def _elsewhere() -> list[str]:
    """Return the modules that this provider does not collect.

    Tests with Kueue run only if the command line names their folder, because building Kueue takes minutes.
    `test_kind_*` need containers. Most other modules stop components of the control plane or create dozens of
    nodes, which kind does not support. A module named on the command line always runs, and fails or skips if
    the provider does not support it.
    """
    modules = sorted(HERE.rglob("test_*.py"))
    for_kind = {path for path in modules if path.name.startswith("test_kind_")}
    on_kind = _on_kind()
    left_out = [path for path in modules if (path not in for_kind if on_kind else path in for_kind)]
    left_out = [path for path in left_out if not (on_kind and path.name in EVERYWHERE)]
    return ["kueue", *(str(path.relative_to(HERE)) for path in left_out)]


collect_ignore = _elsewhere()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Extend the timeout of tests on kind: containers are slow, and the first test creates the cluster."""
    if _on_kind():
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(KIND_TEST_SECONDS))


@pytest.fixture
def openrl(cluster: Cluster) -> WorkloadClient:
    return WorkloadClient(cluster.api, pace=cluster.pace, worker_image=cluster.worker_image)


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start controllers that stop at the end of the test: in the cluster on kind, else as local processes."""
    with ExitStack() as stack:

        def run(flags: Mapping[str, str]) -> Running:
            if isinstance(cluster, KindCluster):
                return stack.enter_context(running_deployment(cluster, tmp_path, flags))
            return stack.enter_context(running_controller(cluster, tmp_path / "controller.log", flags))

        yield run
