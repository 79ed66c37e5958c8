"""Which build of the program this is: for `--version`, the log and the metric `open_rl_scheduler_build_info`.

The version is the installed package's. Commit and date are those that the image build left beside this
module in `build.json` (`{"commit": "...", "date": "..."}`); a checkout has no such file and says `unknown`.
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
    """What was built, from what, and what it runs on."""

    version: str
    commit: str
    date: str
    python: str
    platform: str

    def __str__(self) -> str:
        """One line, as `--version` prints it after the program's name."""
        return (
            f"{self.version} (commit {self.commit}, built {self.date}, Python {self.python}, {self.platform})"
        )


@cache
def build_info() -> BuildInfo:
    """Describe this build."""
    file = resources.files("controller") / "build.json"
    build = msgspec.json.decode(file.read_bytes(), type=_BuildFile) if file.is_file() else _BuildFile()
    return BuildInfo(
        version=metadata.version(_DISTRIBUTION),
        commit=build.commit,
        date=build.date,
        python=platform.python_version(),
        platform=f"{platform.system()}/{platform.machine()}".lower(),
    )
