"""Fixtures of the tests of `simulation`: everything runs in virtual time."""

import pytest

from tests.virtualtime import VIRTUAL_BACKEND, VirtualBackend


@pytest.fixture
def anyio_backend() -> VirtualBackend:
    """The virtual loop, on asyncio."""
    return VIRTUAL_BACKEND
