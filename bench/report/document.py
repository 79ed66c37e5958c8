"""Results inside a hand-written Markdown document: only what stands between two markers is replaced."""

from __future__ import annotations

from bench.errors import BenchError
from bench.report.details import all_tables
from bench.report.table import markdown
from bench.samples import Facts, Results

BEGIN = "<!-- results: written by `python -m bench`, do not edit -->"
END = "<!-- end of results -->"


def with_results(document: str, results: Results) -> str:
    """The document with the results of this run. Raises `BenchError` if it has no place for them."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise BenchError(f"the document has no lines {BEGIN!r} and {END!r} to write the results between")
    body = f"{_facts(results.facts)}\n\n{markdown(all_tables(results.samples))}"
    return f"{head}{BEGIN}\n\n{body}\n{END}{tail}"


def _facts(facts: Facts) -> str:
    changed = " with uncommitted changes" if facts.modified else ""
    machine = ", ".join(f"{name} {value}" for name, value in facts.machine.items())
    software = ", ".join(f"{name} {value}" for name, value in facts.software.items())
    lines = [
        f"* Commit: `{facts.commit}`{changed}",
        f"* Started: {facts.started}",
        f"* Machine: {machine}",
        f"* Software: {software}",
        f"* Command: `{' '.join(['python -m bench', *facts.arguments])}`",
    ]
    return "\n".join(lines)
