"""The build of the program, for `--version`, the log and the metric `open_rl_scheduler_build_info`.

The version is that of the installed package. The image build writes the commit and the date to `build.json`
(`{"commit": "...", "date": "..."}`) in the package `controller`. Without this file both are `unknown`.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources

import msgspec

_DISTRIBUTION = "open-rl-scheduler"
_UNKNOWN = "unknown"


class _BuildFile(msgspec.Struct):
    commit: str = _UNKNOWN
    date: str = _UNKNOWN


@dataclass(frozen=True)
class BuildInfo:
    """Version, source and platform of this build."""

    version: str
    commit: str
    date: str
    python: str
    platform: str

    def __str__(self) -> str:
        """The text that `--version` prints after the program's name."""
        return (
            f"{self.version} (commit {self.commit}, built {self.date}, Python {self.python}, {self.platform})"
        )


@cache
def build_info() -> BuildInfo:
    """Return the description of this build."""
    file = resources.files("controller") / "build.json"
    build = msgspec.json.decode(file.read_bytes(), type=_BuildFile) if file.is_file() else _BuildFile()
    return BuildInfo(
        version=metadata.version(_DISTRIBUTION),
        commit=build.commit,
        date=build.date,
        python=platform.python_version(),
        platform=f"{platform.system()}/{platform.machine()}".lower(),
    )
