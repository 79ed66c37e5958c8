"""Fixtures of the store tests."""

from __future__ import annotations

import pytest

from tests.informers.recorder import StoreRecorder


@pytest.fixture
def recorder() -> StoreRecorder:
    return StoreRecorder()
