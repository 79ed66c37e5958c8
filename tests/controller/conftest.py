"""Fixtures shared by the tests of `controller`."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def anyio_backend() -> str:
    """The only backend: the program runs on asyncio."""
    return "asyncio"


@pytest.fixture
def process_logging() -> Iterator[None]:
    """Restore the logging of the process after a test that configures it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for package in ("controller", "informers", "ledger", "placement"):
        logging.getLogger(package).setLevel(logging.NOTSET)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
