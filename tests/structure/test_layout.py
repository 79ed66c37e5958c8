"""Folders have a limited number of modules, and there are no import cycles.

`lint-imports` enforces the order of the folders within a package (`pyproject.toml`).
"""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("controller", "informers", "ledger", "placement", "simulation", "bench")

MODULES_PER_FOLDER_MAX = 16
NOT_COUNTED = ("__init__.py", "__main__.py", "conftest.py")


def tracked_modules() -> list[Path]:
    """Return the Python files that Git tracks or would track, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [Path(name) for name in listed if (ROOT / name).exists()]


def import_graph() -> Mapping[str, set[str]]:
    """Return the imports of each module, including those in functions and under `TYPE_CHECKING`."""
    paths = {dotted(path): path for path in tracked_modules() if path.parts[0] in PACKAGES}
    return {
        name: {found for found in imported(ROOT / path, paths) if found != name}
        for name, path in paths.items()
    }


def dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                # `from package import name` imports a module if there is one of that name.
                submodule = f"{node.module}.{alias.name}"
                if submodule in known:
                    yield submodule
                elif node.module in known:
                    yield node.module


def cycle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """Return one cycle of the graph, empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_folder_has_more_than_16_modules() -> None:
    counts = Counter(str(path.parent) for path in tracked_modules() if path.name not in NOT_COUNTED)
    assert counts["controller/reconcile"] > 0
    assert {folder: count for folder, count in counts.items() if count > MODULES_PER_FOLDER_MAX} == {}


def test_there_are_no_import_cycles() -> None:
    graph = import_graph()
    assert {name.partition(".")[0] for name in graph} == set(PACKAGES)
    assert sum(map(len, graph.values())) > len(graph)
    assert cycle_in(graph) == []


def test_a_cycle_is_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_imports_in_functions_and_under_type_checking_count(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import a.one\n"
        "if TYPE_CHECKING:\n    from a import two\n"
        "def late():\n    from a.three import name\n"
        "from b import other\n"
    )
    known = dict.fromkeys(("a", "a.one", "a.two", "a.three"), module)
    assert set(imported(module, known)) == {"a.one", "a.two", "a.three"}
