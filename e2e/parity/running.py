"""Runs cases and keeps what a real server said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from e2e.parity.cases import Case
from e2e.parity.script import Script
from informers.api import Api

TRANSCRIPTS = Path(__file__).with_name("transcripts.yaml")

_HEAD = """\
# What a real API server said to each case: recorded by `python -m e2e.parity`, never edited.
"""


async def run_case(case: Case, api: Api) -> list[str]:
    """The transcript of a case."""
    script = Script(api)
    await case(script)
    return script.transcript()


def load_transcripts() -> dict[str, list[str]]:
    """What a real server said, by the title of the case."""
    loaded: dict[str, list[str]] = yaml.safe_load(TRANSCRIPTS.read_text())
    return loaded


def save_transcripts(transcripts: Mapping[str, list[str]]) -> None:
    """Replace the recording."""
    TRANSCRIPTS.write_text(_HEAD + yaml.safe_dump(dict(transcripts), sort_keys=False, width=1000))
