"""Names and prose use the words of the field: none of the glossary's words to avoid is left anywhere."""

from __future__ import annotations

import subprocess

from tests.docs.glossary import hits, renamed_classes
from tests.docs.settings_table import ROOT

NOT_SEARCHED = ("tests/docs/glossary.py", "tests/docs/test_glossary.py", "e2e/controlplane/tools/")
SEARCHED = (
    "*.py",
    "*.md",
    "*.toml",
    "Makefile",
    "Dockerfile",
    "manifests/**/*.yaml",
    "e2e/**/*.yaml",
    ".ci/run",
)


def sources() -> dict[str, str]:
    """The text of every tracked source, page and manifest, by path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SEARCHED]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    paths = [name for name in listed if not name.startswith(NOT_SEARCHED) and (ROOT / name).is_file()]
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in paths}


def test_no_word_of_the_glossary_to_avoid_is_used() -> None:
    found = [hit for path, text in sources().items() for hit in hits(path, text)]

    assert not found, "\n" + "\n".join(found)


def test_no_class_has_a_former_name() -> None:
    found = [
        hit for path, text in sources().items() if path.endswith(".py") for hit in renamed_classes(path, text)
    ]

    assert not found, "\n" + "\n".join(found)


def test_a_word_is_recognized_in_names_and_in_prose() -> None:
    text = '''\
def look_again(self):  # The worker is
    # woken.
    """Read past the
    cache."""
    return "stray", "ReplacingWedgedClaim", self.wakeAll
'''
    assert sorted(hit.partition(": ")[2] for hit in hits("some.py", text)) == [
        "Read past -> live read",
        "look_again -> reconcile, check, requeue",
        "woken -> activate, enqueue",
    ]
