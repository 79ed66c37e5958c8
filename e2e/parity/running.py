"""Runs cases and scenes, and stores the transcripts of a real control plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.parity.cases import Case
from e2e.parity.owner import Owner, RealOwner
from e2e.parity.scenes import Scene
from e2e.parity.script import Script
from e2e.parity.stage import Stage
from informers.api import Api

_FOLDER = Path(__file__).parent

_HEAD = """\
# Transcripts of a real control plane, recorded by `python -m e2e.parity`, never edited.
"""


@dataclass(frozen=True)
class Recording:
    """Transcripts by title, in a file."""

    path: Path

    def load(self) -> dict[str, list[str]]:
        """Read the transcripts."""
        loaded: dict[str, list[str]] = yaml.safe_load(self.path.read_text())
        return loaded

    def save(self, transcripts: Mapping[str, list[str]]) -> None:
        """Replace the transcripts."""
        self.path.write_text(_HEAD + yaml.safe_dump(dict(transcripts), sort_keys=False, width=1000))


RECORDED_CASES = Recording(_FOLDER / "cases.yaml")
RECORDED_SCENES = Recording(_FOLDER / "scenes.yaml")


async def run_case(case: Case, api: Api, owner: Owner | None = None) -> list[str]:
    """Return the transcript of a case. By default, the owner of a real cluster makes its rules."""
    script = Script(api, owner or RealOwner(api))
    await case(script)
    return script.transcript()


async def run_scene(scene: Scene, api: Api) -> list[str]:
    """Return the transcript of a scene."""
    stage = Stage(api)
    await scene(stage)
    return stage.transcript()
