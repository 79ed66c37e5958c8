"""The process boundary: from arguments and environment to an exit status.

* 0: clean stop, or help or version printed.
* 1: failure. One log record states the cause.
* 2: invalid usage. One line on standard error names the setting, its value and the allowed values.

All settings are valid before `run` starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TextIO

import anyio

from controller.config.flag_parsing import (
    COMPLETE_VARIABLE,
    complete,
    ignored_variables,
    parse_command_line,
)
from controller.config.flags import OPTIONS, PROGRAM, Settings, UsageError, resolve
from controller.config.help_format import render_help
from controller.runtime import logs
from controller.runtime.build_info import build_info
from informers.errors import ApiError, ConfigurationError
from informers.leader.election import LeadershipLost

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2

_log = logs.get_logger(__name__)


def run_command(
    argv: Sequence[str],
    environ: Mapping[str, str],
    run: Callable[[Settings], Awaitable[int]],
    *,
    check: Callable[[Settings], None] | None = None,
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    """Execute the command line and return the exit status.

    `argv` excludes the program's name. `run` returns the exit status of the controller. A `UsageError` raised
    by `run` is shown like an invalid flag. `check` runs before the first log record. It raises
    `ConfigurationError` if a setting does not work.
    """
    try:
        if instruction := environ.get(COMPLETE_VARIABLE):
            print(complete(instruction), file=stdout)
            return EXIT_OK
        command = parse_command_line(argv)
        if command.help:
            stdout.write(render_help())
            return EXIT_OK
        if command.version:
            print(f"{PROGRAM} {build_info()}", file=stdout)
            return EXIT_OK
        settings = resolve(command.flags, environ)
    except UsageError as error:
        return _report_usage_error(error, stderr)
    try:
        if check is not None:
            check(settings)
    except ConfigurationError as error:
        return _report_usage_error(_with_setting_names(error, settings), stderr)
    logs.configure(settings, stderr)
    _log_start(settings, (*command.ignored, *ignored_variables(environ)))
    return _run(run, settings, stderr)


def _log_start(settings: Settings, ignored: Sequence[str]) -> None:
    """Log the settings, and the ignored settings of an earlier controller."""
    if ignored:
        _log.warning("Ignored settings of an earlier controller", settings=list(dict.fromkeys(ignored)))
    _log.info(
        "Started process",
        version=build_info().version,
        commit=build_info().commit,
        seat_limit=settings.seat_limit_meaning,
        settings={option.flag: settings.text_of(field) for field, option in OPTIONS.items() if option.flag},
    )


def _run(run: Callable[[Settings], Awaitable[int]], settings: Settings, stderr: TextIO) -> int:
    try:
        return anyio.run(run, settings, backend_options={"use_uvloop": True})
    except KeyboardInterrupt:
        _log.error("Interrupted during start")
        return EXIT_FAILURE
    except Exception as error:  # noqa: BLE001 - the process boundary: every failure becomes an exit status
        causes = list(logs.leaf_errors(error))
        for cause in causes:
            if isinstance(cause, UsageError):
                return _report_usage_error(cause, stderr)
            if isinstance(cause, ConfigurationError):
                return _report_usage_error(_with_setting_names(cause, settings), stderr)
        expected = all(isinstance(cause, (ApiError, LeadershipLost)) for cause in causes)
        _log.error("Stopped after an error", err=error, exc_info=None if expected else error)
        return EXIT_FAILURE


def _with_setting_names(error: ConfigurationError, settings: Settings) -> UsageError:
    """Prefix the error with the settings that the user gave for cluster access."""
    given = [settings.given_as[field] for field in ("kubeconfig", "context") if field in settings.given_as]
    return UsageError(": ".join([*([", ".join(given)] if given else []), str(error)]))


def _report_usage_error(error: UsageError, stderr: TextIO) -> int:
    print(f"{PROGRAM}: {error}", file=stderr)
    return EXIT_USAGE
