"""Results in a hand-written Markdown document: only the text between two markers is replaced.

The informers have their own markers, so that measuring them again does not change the other results.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import BenchError
from bench.report.details import all_tables
from bench.report.informers import informer_samples
from bench.report.table import markdown
from bench.samples import Results, RunEnvironment, Sample

BEGIN = "<!-- results: written by `python -m bench`, do not edit -->"
END = "<!-- end of results -->"
INFORMERS_BEGIN = "<!-- results of the informers: written by `python -m bench`, do not edit -->"
INFORMERS_END = "<!-- end of the results of the informers -->"


def with_results(document: str, results: Results) -> str:
    """Return the document with the results of this run. Parts that the run did not measure are unchanged.

    Raises `BenchError` if the document has no markers.
    """
    informers = informer_samples(results.samples)
    others = [sample for sample in results.samples if sample not in informers]
    if others:
        document = _replaced(document, BEGIN, END, results.facts, others)
    if informers:
        document = _replaced(document, INFORMERS_BEGIN, INFORMERS_END, results.facts, informers)
    return document


def _replaced(
    document: str, begin: str, end: str, environment: RunEnvironment, samples: Sequence[Sample]
) -> str:
    head, found_begin, rest = document.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found_begin or not found_end:
        raise BenchError(f"the document has no lines {begin!r} and {end!r} to write the results between")
    return f"{head}{begin}\n\n{_environment(environment)}\n\n{markdown(all_tables(samples))}\n{end}{tail}"


def _environment(environment: RunEnvironment) -> str:
    changed = " with uncommitted changes" if environment.modified else ""
    machine = ", ".join(f"{name} {value}" for name, value in environment.machine.items())
    software = ", ".join(f"{name} {value}" for name, value in environment.software.items())
    lines = [
        f"* Commit: `{environment.commit}`{changed}",
        f"* Started: {environment.started}",
        f"* Machine: {machine}",
        f"* Software: {software}",
        f"* Command: `{' '.join(['python -m bench', *environment.arguments])}`",
    ]
    return "\n".join(lines)
