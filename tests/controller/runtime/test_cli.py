"""Tests of the command line: output, errors and exit statuses."""

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from controller.config import flag_parsing
from controller.config.flags import OPTIONS, Settings, UsageError
from controller.runtime.build_info import build_info
from controller.runtime.cli import run_command
from informers.errors import ConfigurationError, Forbidden
from informers.leader.election import LeadershipLost

pytestmark = pytest.mark.usefixtures("process_logging")

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).parents[3]
TOO_LONG = "x" * 300
EXPECTED = "a flag, or demo as the first word; see --help"


class CallResult(NamedTuple):
    """The visible result of a call, and the settings that it ran with."""

    status: int
    stdout: str
    stderr: str
    settings: Settings | None

    @property
    def records(self) -> list[dict[str, object]]:
        """The parsed log records."""
        return [json.loads(line) for line in self.stderr.splitlines()]


def call(
    *argv: str,
    environ: Mapping[str, str] | None = None,
    run: Callable[[Settings], Awaitable[int]] | None = None,
) -> CallResult:
    seen: list[Settings] = []
    stdout, stderr = io.StringIO(), io.StringIO()

    async def record(settings: Settings) -> int:
        seen.append(settings)
        return await run(settings) if run else 0

    status = run_command(argv, environ or {}, record, stdout=stdout, stderr=stderr)
    return CallResult(status, stdout.getvalue(), stderr.getvalue(), seen[0] if seen else None)


def assert_refused(result: CallResult, line: str) -> None:
    assert result == CallResult(2, "", f"open-rl-scheduler: {line}\n", None)


def test_help_is_the_golden_text() -> None:
    """To update it: `open-rl-scheduler --help > tests/controller/golden/help.txt`."""
    assert call("--help") == CallResult(0, (GOLDEN / "help.txt").read_text(), "", None)


@pytest.mark.parametrize("columns", ["20", "300"])
def test_help_has_at_most_80_columns_on_every_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = call("-h").stdout
    assert text == (GOLDEN / "help.txt").read_text()
    assert max(map(len, text.splitlines())) <= 80


def test_help_names_every_flag_and_variable_and_the_meaning_of_limit_one() -> None:
    text = " ".join(call("--help").stdout.split())
    for option in OPTIONS.values():
        assert option.flag in text
        assert option.env in text
    assert "1 means exclusive placement: no two workers share a GPU" in text


def test_help_takes_precedence_over_an_invalid_value() -> None:
    assert call("--max-seats-per-claim=abc", "--help").status == 0


def test_version_is_one_line() -> None:
    assert call("--version") == CallResult(0, f"open-rl-scheduler {build_info()}\n", "", None)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (
            ["--max-seats-per-claim=-1"],
            '--max-seats-per-claim: "-1" is not allowed: a whole number from 0 (no limit) to 256',
        ),
        (
            ["--max-seats-per-claim", "-1"],
            '--max-seats-per-claim: "-1" is not allowed: a whole number from 0 (no limit) to 256',
        ),
        (
            ["--max-seats-per-clam=3"],
            "unknown flag --max-seats-per-clam: did you mean --max-seats-per-claim?",
        ),
        (
            ["--max_seats_per_claim=3"],
            "unknown flag --max_seats_per_claim: did you mean --max-seats-per-claim?",
        ),
        (["-namespace=x"], "unknown flag -namespace: did you mean --namespace?"),
        (["--tpu"], "unknown flag --tpu: see --help"),
        (["--wibble\n"], "unknown flag --wibble\\n: see --help"),
        (["dmeo"], f'"dmeo" is not expected: {EXPECTED}'),
        (["--max-seats-per-claim=2", "demo"], f'"demo" is not expected: {EXPECTED}'),
        (["--", "start"], f'"start" is not expected: {EXPECTED}'),
        (["--leader-elect", "false", "true"], f'"true" is not expected: {EXPECTED}'),
        (["--context"], "--context: the value is missing: printable text"),
        (["--help=yes"], "--help: takes no value"),
    ],
)
def test_an_invalid_command_line_is_one_line_and_status_2(argv: Sequence[str], line: str) -> None:
    assert_refused(call(*argv), line)


def test_without_sub_commands_only_flags_are_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_parsing, "command_names", list)
    assert_refused(call("demo"), '"demo" is not expected: there are only flags; see --help')


@pytest.mark.parametrize("text", ["-1", "abc", "257", "1.5"])
def test_an_invalid_variable_is_named(text: str) -> None:
    assert_refused(
        call(environ={"OPEN_RL_MAX_SEATS_PER_CLAIM": text}),
        f'OPEN_RL_MAX_SEATS_PER_CLAIM: "{text}" is not allowed: a whole number from 0 (no limit) to 256',
    )


@pytest.mark.parametrize(
    ("argv", "leader_elect"),
    [
        ([], True),
        (["--leader-elect"], True),
        (["--leader-elect=true"], True),
        (["--leader-elect=false"], False),
        (["--leader-elect", "false"], False),
        (["--leader-elect", "--context=x"], True),
        (["--leader-elect=false", "--leader-elect"], True),
    ],
)
def test_booleans(argv: Sequence[str], leader_elect: bool) -> None:
    settings = call(*argv).settings
    assert settings is not None
    assert settings.leader_elect is leader_elect


def test_only_the_variables_of_the_table_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_RL_MAX_SEATS_PER_CLAIM", "abc")
    monkeypatch.setenv("OPEN_RL_SCHEDULER_NAMESPACE", "elsewhere")
    assert call(environ={}).settings == Settings()


def test_settings_of_an_earlier_controller_are_ignored_with_one_warning() -> None:
    result = call(
        "--zap-devel",
        "--zap-log-level",
        "debug",
        "--zap-encoder=json",
        "--tpu-device-class=google.com/tpu",
        "--tpu-device-driver",
        "tpu.google.com",
        "--max-seats-per-claim=3",
        "--zap-new",
        "--leader-elect",
        environ={"OPEN_RL_TPU_DEVICE_CLASS": "x", "OPEN_RL_TPU_DEVICE_DRIVER": ""},
    )
    assert result.status == 0
    assert result.settings is not None
    assert (result.settings.max_seats_per_claim, result.settings.leader_elect) == (3, True)
    (warning,) = [record for record in result.records if record["level"] == "warning"]
    assert warning["settings"] == [
        "--zap-devel",
        "--zap-log-level",
        "--zap-encoder",
        "--tpu-device-class",
        "--tpu-device-driver",
        "--zap-new",
        "OPEN_RL_TPU_DEVICE_CLASS",
    ]


def test_without_ignored_settings_there_is_no_warning() -> None:
    result = call(environ={"OPEN_RL_TPU_DEVICE_CLASS": ""})
    assert [record["level"] for record in result.records] == ["info"]


def test_the_start_record_has_the_settings_and_the_meaning_of_the_limit() -> None:
    (start,) = call("--max-seats-per-claim=1").records
    assert start["msg"] == "Started process"
    assert start["seatLimit"] == "exclusive placement: no two workers share a GPU"
    settings = start["settings"]
    assert isinstance(settings, dict)
    assert settings["--max-seats-per-claim"] == "1"
    assert settings["--retry-interval"] == "10s"


def test_it_runs_on_uvloop() -> None:
    async def run(_: Settings) -> int:
        return int(type(asyncio.get_running_loop()).__module__ != "uvloop")

    assert call(run=run).status == 0


def test_the_status_of_run_is_the_exit_status() -> None:
    async def run(_: Settings) -> int:
        return 1

    assert call(run=run).status == 1


def test_a_usage_error_of_run_is_shown_like_an_invalid_flag() -> None:
    async def run(settings: Settings) -> int:
        raise ExceptionGroup("tasks", [settings.invalid("kubeconfig", "a file that can be read")])

    result = call("--kubeconfig=/nope", run=run)
    assert result.status == 2
    assert result.stderr.splitlines()[1:] == [
        'open-rl-scheduler: --kubeconfig: "/nope" is not allowed: a file that can be read'
    ]


@pytest.mark.parametrize(
    ("argv", "environ", "line"),
    [
        ([], {}, "open-rl-scheduler: kubeconfig: no such file"),
        (["--kubeconfig=/nope"], {}, "open-rl-scheduler: --kubeconfig: kubeconfig: no such file"),
        (
            ["--context=c"],
            {"KUBECONFIG": "/n"},
            "open-rl-scheduler: KUBECONFIG, --context: kubeconfig: no such file",
        ),
    ],
)
def test_an_invalid_cluster_configuration_is_a_usage_error(
    argv: Sequence[str], environ: Mapping[str, str], line: str
) -> None:
    async def run(_: Settings) -> int:
        raise ConfigurationError("kubeconfig: no such file")

    result = call(*argv, environ=environ, run=run)
    assert (result.status, result.stderr.splitlines()[1:]) == (2, [line])


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("{folder}/none", "'{folder}/none': no such file; give the path of a readable kubeconfig"),
        ("{folder}/empty", "{folder}/empty: current-context is not set; none is defined"),
        ("{folder}/empty/config", "{folder}/empty/config: cannot be read: Not a directory"),
        (TOO_LONG, f"{TOO_LONG}: cannot be read: File name too long"),
        ("~no-such-user/config", "~no-such-user/config: cannot be read: its home directory is unknown"),
    ],
)
def test_an_unusable_kubeconfig_is_refused_before_the_first_log_record(
    path: str, line: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").write_text("{}", encoding="utf-8")
    kubeconfig, message = path.format(folder=tmp_path), line.format(folder=tmp_path)
    program = [sys.executable, "-c", "from controller.main import main; main()", f"--kubeconfig={kubeconfig}"]
    process = subprocess.run(program, cwd=ROOT, env={}, capture_output=True, text=True, check=False)

    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr == f"open-rl-scheduler: --kubeconfig: kubeconfig {message}\n"


@pytest.mark.parametrize(
    "error", [Forbidden("leases is forbidden", status=403), LeadershipLost("not renewed")]
)
def test_an_expected_error_is_one_record_without_traceback_and_status_1(error: Exception) -> None:
    async def run(_: Settings) -> int:
        raise ExceptionGroup("tasks", [error])

    result = call(run=run)
    assert result.status == 1
    record = result.records[-1]
    assert record["level"] == "error"
    assert record["err"] == f"{type(error).__name__}: {error}"
    assert "stacktrace" not in record


def test_an_unexpected_error_is_one_record_with_traceback_and_status_1() -> None:
    async def run(_: Settings) -> int:
        raise LookupError("surprise")

    result = call(run=run)
    assert result.status == 1
    assert len(result.records) == 2
    assert result.records[-1]["err"] == "LookupError: surprise"
    assert "in run" in str(result.records[-1]["stacktrace"])


def test_an_interrupt_during_start_is_status_1_without_traceback() -> None:
    async def run(_: Settings) -> int:
        raise KeyboardInterrupt

    result = call(run=run)
    assert result.status == 1
    assert len(result.records) == 2


def complete(words: str, position: int) -> list[str]:
    """Request completion as bash does, in a process with the shell's variables."""
    code = (
        "import os, sys; from controller.runtime.cli import run_command;"
        "sys.exit(run_command([], os.environ, None, stdout=sys.stdout, stderr=sys.stderr))"
    )
    shell = {
        "_OPEN_RL_SCHEDULER_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(position),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **shell}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_shell_completes_flags_and_values() -> None:
    assert complete("open-rl-scheduler --max-", 1) == [
        "plain,--max-seats-per-claim",
        "plain,--max-concurrent-reconciles",
    ]
    assert complete("open-rl-scheduler --placement-strategy sp", 2) == ["plain,spread"]
    assert complete("open-rl-scheduler --kubeconfig ", 2) == ["file,"]


def test_a_shell_gets_its_completion_script() -> None:
    result = call(environ={"_OPEN_RL_SCHEDULER_COMPLETE": "zsh_source"})
    assert result.status == 0
    assert result.stdout.startswith("#compdef open-rl-scheduler")


def test_an_unknown_shell_is_refused() -> None:
    result = call(environ={"_OPEN_RL_SCHEDULER_COMPLETE": "dos_source"})
    assert result.status == 2
    assert "bash_source, zsh_source or fish_source" in result.stderr


def test_a_usage_error_is_an_exception_with_the_line_as_its_text() -> None:
    assert str(UsageError("one line")) == "one line"
