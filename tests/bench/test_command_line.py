from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import cli
from bench.errors import NeverHappened
from bench.report.document import BEGIN, END
from bench.samples import Results
from bench.scenarios.catalog import TITLES
from tests.bench.builders import environment, sample


def test_the_scenarios_are_listed() -> None:
    result = CliRunner().invoke(cli.cli, ["--list"])

    assert [line.split()[0] for line in result.output.splitlines()] == list(TITLES)


def test_an_unknown_scenario_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli.cli, ["--scenario", "fast"])

    assert result.exit_code == 2
    assert "'fast' is not one of" in result.output


def test_earlier_results_are_shown_and_written_without_a_measurement(tmp_path: Path) -> None:
    source, document = tmp_path / "results.json", tmp_path / "performance.md"
    Results(facts=environment(), samples=[sample("dedicated-100")]).write(source)
    document.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")

    result = CliRunner().invoke(cli.cli, ["--from", str(source), "--markdown", str(document)])

    assert result.exit_code == 0, result.output
    assert "requests per placement" in result.output
    assert "requests per placement" in document.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from=/nonexist"], "--from: File '/nonexist' does not exist."),
        (["--markdown=/nonexist"], "--markdown: File '/nonexist' does not exist."),
        (["--rounds=2", "--rounds=3"], "--rounds: given more than once"),
    ],
)
def test_invalid_options_exit_with_status_2_and_one_line(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--list", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")


def test_an_error_inside_task_groups_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = NeverHappened("8 run: not within 5 s")
    failure.add_note("last log line of the controller")

    def fail(*_: object, **__: object) -> int:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [failure])])

    monkeypatch.setattr(cli.cli, "main", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 1
    assert capsys.readouterr().err == "last log line of the controller\nerror: 8 run: not within 5 s\n"


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> int:
        raise ExceptionGroup("outer", [KeyError("unexpected")])

    monkeypatch.setattr(cli.cli, "main", fail)
    with pytest.raises(ExceptionGroup) as caught:
        cli.main()
    assert caught.group_contains(KeyError, match="unexpected")
