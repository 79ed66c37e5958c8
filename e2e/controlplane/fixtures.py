"""Fixtures for tests on a cluster: name this module in `pytest_plugins` of the test module.

One cluster serves a whole session (a start costs seconds); each test gets it empty, and leaves it empty for
the next. What has to be built is built before the first test: minutes of compiling are not its own time.
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
    """Build what the cluster is made of if a selected test needs one."""
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
    """Yield a cluster with nothing but Kubernetes in it."""
    with pytestconfig.stash[OPENER]() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def installed_cluster_of_session(cluster_of_session: Cluster) -> Cluster:
    """Return the session's cluster with the project's manifests installed."""
    cluster_of_session.install(cluster_of_session.manifests)
    return cluster_of_session


@pytest.fixture
def bare_cluster(cluster_of_session: Cluster) -> Iterator[Cluster]:
    """Yield a cluster without Workloads, Pods, claims and furnished nodes; the manifests may be installed."""
    yield from _emptied(cluster_of_session)


@pytest.fixture
def cluster(installed_cluster_of_session: Cluster) -> Iterator[Cluster]:
    """Yield an empty cluster that the project's manifests are installed in."""
    yield from _emptied(installed_cluster_of_session)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test that asks for what the cluster at hand cannot do."""
    try:
        yield
    except Unsupported as error:
        pytest.skip(f"{item.name}: {error}")


def _emptied(cluster: Cluster) -> Iterator[Cluster]:
    cluster.clear()
    yield cluster
    cluster.clear()
