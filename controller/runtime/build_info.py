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


@dataclass(frozen=True)
class BuildInfo:
    """Version, source and platform of this build."""

    version: str
    python: str
    platform: str
    commit: str = "unknown"
    date: str = "unknown"

    def __str__(self) -> str:
        """The text that `--version` prints after the program's name."""
        return (
            f"{self.version} (commit {self.commit}, built {self.date}, Python {self.python}, {self.platform})"
        )


@cache
def build_info() -> BuildInfo:
    """Return the description of this build."""
    file = resources.files("controller") / "build.json"
    source = msgspec.json.decode(file.read_bytes(), type=dict[str, str]) if file.is_file() else {}
    return BuildInfo(
        version=metadata.version(_DISTRIBUTION),
        python=platform.python_version(),
        platform=f"{platform.system()}/{platform.machine()}".lower(),
        **source,
    )
