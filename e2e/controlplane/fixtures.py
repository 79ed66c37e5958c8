"""Fixtures for tests on a cluster. A test module names this module in `pytest_plugins`.

One cluster serves a whole session, since starting one takes seconds. It is empty before and after each test.
All programs are built before the first test, so that no test's time limit includes minutes of compiling.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.errors import ControlPlaneError, Unsupported
from e2e.controlplane.provider import Opener, prepared

SESSION_FIXTURE = "cluster_of_session"
OPENER = pytest.StashKey[Opener]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the parts of the cluster if a selected test needs one."""
    if session.config.option.collectonly or OPENER in session.config.stash:
        return
    if any(SESSION_FIXTURE in getattr(item, "fixturenames", ()) for item in session.items):
        stack = ExitStack()
        session.config.add_cleanup(stack.close)
        try:
            session.config.stash[OPENER] = stack.enter_context(prepared(os.environ))
        except ControlPlaneError as error:
            notes = getattr(error, "__notes__", [])
            raise pytest.UsageError("\n".join([*notes, str(error)])) from error


@pytest.fixture(scope="session")
def cluster_of_session(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """Yield a cluster without the project's manifests."""
    with pytestconfig.stash[OPENER]() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def installed_cluster_of_session(cluster_of_session: Cluster) -> Cluster:
    """Return the session's cluster with the project's manifests installed."""
    cluster_of_session.install(cluster_of_session.manifests)
    return cluster_of_session


@pytest.fixture
def bare_cluster(cluster_of_session: Cluster) -> Iterator[Cluster]:
    """Yield a cluster without Workloads, Pods, claims or nodes of tests. The manifests may be installed."""
    yield from _emptied(cluster_of_session)


@pytest.fixture
def cluster(installed_cluster_of_session: Cluster) -> Iterator[Cluster]:
    """Yield an empty cluster with the project's manifests."""
    yield from _emptied(installed_cluster_of_session)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test that needs an unsupported operation."""
    try:
        yield
    except Unsupported as error:
        pytest.skip(f"{item.name}: {error}")


def _emptied(cluster: Cluster) -> Iterator[Cluster]:
    cluster.clear()
    yield cluster
    cluster.clear()
