"""Fixtures that the scenarios share: the workers' namespace, and controllers to start in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.controlplane import Cluster
from e2e.openrl import OpenRL
from e2e.program import ControllerProcess, running_controller

Start = Callable[[Mapping[str, str]], ControllerProcess]


@pytest.fixture
def openrl(cluster: Cluster) -> OpenRL:
    return OpenRL(cluster.api)


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start controllers that end with the test."""
    with ExitStack() as stack:

        def run(flags: Mapping[str, str]) -> ControllerProcess:
            return stack.enter_context(running_controller(cluster, tmp_path / "controller.log", flags))

        yield run
