"""Fixtures for the tests of the control plane."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.api import Api
from e2e.controlplane.kubeconfig import Access
from tests.controlplane.fakes import FakeApiServer, serve_api


@pytest.fixture
def run_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the parent of all run folders. It must be empty after a test."""
    root = tmp_path / "run"
    root.mkdir()
    monkeypatch.setenv("TMPDIR", str(root))
    monkeypatch.setattr(tempfile, "tempdir", str(root))
    return root


@pytest.fixture
def api_server() -> Iterator[FakeApiServer]:
    with serve_api(FakeApiServer()) as server:
        yield server


@pytest.fixture
def api(api_server: FakeApiServer) -> Iterator[Api]:
    with Api(Access(server=api_server.url, tls=None, token="secret")) as client:
        yield client
