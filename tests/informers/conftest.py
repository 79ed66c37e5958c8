"""What the tests of the store share."""

from __future__ import annotations

import pytest

from tests.informers.recorder import Told


@pytest.fixture
def told() -> Told:
    return Told()
