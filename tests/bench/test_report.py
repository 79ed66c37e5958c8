from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.contender import ContenderInfo
from bench.errors import BenchError
from bench.report.details import all_tables
from bench.report.document import BEGIN, END, with_results
from bench.report.headline import headline
from bench.report.measured import Measured
from bench.report.table import Table, markdown, print_tables
from bench.samples import Results, Sample
from bench.scenarios.decision import Decision
from bench.scenarios.handoff import HandOffs
from bench.scenarios.late import LatePlacement
from tests.bench.builders import environment, sample


def rows(*samples: Sample) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the cells of the headline by measure and scenario."""
    return {(row[0], row[1]): row[2:] for row in headline(Measured(samples)).rows}


def decision_sample(claims: int, seconds: float) -> Sample:
    latencies = dict.fromkeys((Decision.chosen, Decision.full, Decision.explained), [seconds] * 3)
    return sample("decision", workers=claims, contender="fleet", latencies=latencies)


def test_the_target_of_a_dedicated_placement_is_six_writes_and_no_read() -> None:
    requests = {"patch workloads": 300, "create pods": 300, "watch pods": 2}
    measure = ("requests per placement", "dedicated-100, 4 at once")

    assert rows(sample("dedicated-100", requests=requests))[measure] == (
        "6.00 writes, 0.00 reads",
        "",
        "6 writes, 0 reads",
        "yes",
    )
    assert rows(sample("dedicated-100", requests=requests | {"get pods": 1}))[measure][-1] == "no"
    assert rows(sample("dedicated-100", requests=requests | {"create pods": 301}))[measure][-1] == "no"


def test_speed_is_compared_with_the_bare_writer_by_round() -> None:
    seen = rows(
        *(sample("dedicated-400", round=number, seconds=5.0 * number) for number in (1, 2, 3)),
        *(sample("dedicated-400", ContenderInfo.BARE_WRITER, round=n, seconds=4.0 * n) for n in (3, 2, 1)),
    )

    assert seen["placements per second", "dedicated-400, 4 at once"] == (
        "10.0/s, ratio 0.80",
        "12.5/s",
        "ratio at least 0.8",
        "yes",
    )


def test_the_cpu_target_is_per_placement() -> None:
    seen = rows(
        sample("dedicated-100", cpu_seconds=1.01),
        sample("dedicated-100", ContenderInfo.BARE_WRITER, cpu_seconds=0.2),
    )

    assert seen["CPU per placement", "dedicated-100, 4 at once"] == (
        "10.1 ms",
        "2.0 ms",
        "at most 10.0 ms",
        "no",
    )


def test_a_hand_off_has_targets_in_requests_and_time() -> None:
    slow = {HandOffs.freed_to_booked: [0.010] * 197 + [0.050] * 3}
    requests = {"create pods": 1400, "patch leases": 50}
    seen = rows(sample("hand-off-500", latencies=slow, requests=requests))

    assert seen["requests per hand-off", "hand-off-500"] == ("14.0", "", "at most 14", "yes")
    label = HandOffs.freed_to_booked
    assert seen[f"{label}, p50 of 200", "hand-off-500"] == ("10.0 ms", "", "at most 15.0 ms", "yes")
    assert seen[f"{label}, p99 of 200", "hand-off-500"] == ("50.0 ms", "", "at most 40.0 ms", "no")


def test_a_late_placement_is_compared_with_one_on_an_empty_fleet() -> None:
    latencies = {LatePlacement.on_empty: [0.1, 0.1, 9.0], LatePlacement.on_full: [0.16, 0.16, 0.16]}
    (cells,) = rows(sample("late", latencies=latencies)).values()

    assert cells == ("160 ms, ratio 1.60", "", "ratio at most 1.5", "no")


def test_at_rest_only_watches_and_the_lease_are_allowed() -> None:
    upkeep = {"watch pods": 5, "patch leases": 30}
    quiet = sample("at-rest", operations=1, seconds=60.0, cpu_seconds=0.3, requests=upkeep)
    busy = sample("at-rest", operations=1, seconds=30.0, cpu_seconds=0.3, requests=upkeep | {"get pods": 1})
    request_row = ("requests per minute, except watches and lease", "at-rest")

    assert rows(quiet)[request_row] == ("0.0", "", "0", "yes")
    assert rows(quiet)["CPU", "at-rest"] == ("0.50 % of a core", "", "under 1%", "yes")
    assert rows(busy)[request_row] == ("2.0", "", "0", "no")
    assert rows(busy)["CPU", "at-rest"][-1] == "no"


def test_a_decision_may_take_twice_as_long_with_100_times_the_claims() -> None:
    seen = rows(decision_sample(10_000, 20.1e-6), decision_sample(100, 10e-6))

    assert seen[Decision.chosen, "10000 claims vs. 100"] == (
        "20.1 µs vs. 10.0, ratio 2.01",
        "",
        "ratio at most 2",
        "no",
    )


def test_a_scenario_without_samples_has_no_row() -> None:
    assert headline(Measured(())).rows == ()
    assert all_tables([]) == []


@pytest.fixture
def results() -> Results:
    return Results(
        facts=environment(),
        samples=[
            sample("dedicated-100", latencies={"created to running": [0.5, 1.0]}, events=200),
            sample("dedicated-100", ContenderInfo.BARE_WRITER),
            decision_sample(100, 1e-6),
        ],
    )


def test_results_survive_a_round_trip_through_their_file(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    results.write(path)

    assert Results.read(path) == results


def test_every_table_renders_on_a_terminal_and_in_markdown(results: Results) -> None:
    tables = all_tables(results.samples)
    output = io.StringIO()
    print_tables(tables, Console(file=output, width=200))
    shown = output.getvalue()
    text = markdown(tables)

    for title in (
        "Targets",
        "Throughput and cost",
        "Control-plane CPU in milliseconds each",
        "Latencies in milliseconds",
        "API requests",
        "Decision time in microseconds",
    ):
        assert title in shown
        assert f"### {title}\n" in text
    assert (
        "| dedicated-100 | controller, 4 | created to running | 2 | 500.0 | 1000.0 | 1000.0 | 1000.0 |"
        in text
    )


def test_a_vertical_bar_in_a_cell_is_escaped() -> None:
    assert r"| a\|b | 1 |" in markdown([Table("t", ("x", "y"), (("a|b", "1"),))])


def test_a_row_with_the_wrong_number_of_cells_raises_an_error() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under 2 columns"):
        Table("t", ("x", "y"), (("a",),))


def test_a_document_keeps_the_text_around_the_results(results: Results) -> None:
    document = f"# Performance\n\nBefore.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n"

    once = with_results(document, results)

    assert once.startswith("# Performance\n\nBefore.\n\n")
    assert once.endswith(f"{END}\n\nAfter.\n")
    assert "old" not in once
    assert "`0123abcd`" in once
    assert "`python -m bench --rounds 3`" in once
    assert with_results(once, results) == once


def test_results_mention_uncommitted_changes(results: Results) -> None:
    changed = Results(facts=environment(modified=True, arguments=[]), samples=results.samples)
    text = with_results(f"{BEGIN}\n{END}\n", changed)

    assert "`0123abcd` with uncommitted changes" in text
    assert "`python -m bench`" in text


def test_a_document_without_markers_raises_an_error(results: Results) -> None:
    with pytest.raises(BenchError, match="no lines"):
        with_results("# Performance\n", results)
