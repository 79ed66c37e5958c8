"""Fixtures shared by the tests of `controller`."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def anyio_backend() -> str:
    """One backend: the program runs on asyncio only."""
    return "asyncio"


@pytest.fixture
def process_logging() -> Iterator[None]:
    """For tests that configure logging, which belongs to the process: puts it back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for package in ("controller", "informers", "ledger", "placement"):
        logging.getLogger(package).setLevel(logging.NOTSET)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
