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


def _on_kind() -> bool:
    try:
        return chosen(os.environ) is Provider.KIND
    except InvalidArgument:  # reported once a test needs a cluster
        return False


# What only a cluster of containers can show; named on the command line it is run, and fails without one.
collect_ignore_glob = [] if _on_kind() else ["test_kind_*.py"]


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
