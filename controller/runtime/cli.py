"""The edge of the process: from arguments and environment to a running loop, and back to an exit status.

0: it was asked to stop and did. 1: it failed; one record says why. 2: it cannot work as it was called; one
line on standard error names the setting as the user gave it, its value and what is allowed. Nothing is
started before every setting is valid. What runs is the caller's: `run` is given the settings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TextIO

import anyio

from controller.config.command_line import (
    COMPLETE_VARIABLE,
    complete,
    ignored_variables,
    parse_command_line,
)
from controller.config.help import render_help
from controller.config.settings import OPTIONS, PROGRAM, Settings, UsageError, resolve
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
    """Do what the command line asks for and return the exit status.

    `argv` excludes the program's name. `run` returns the exit status of a run that was carried through; a
    `UsageError` that it raises, also inside exception groups, is shown like one of the command line. `check`
    is called before anything is logged: what a setting names can be wrong too. It raises
    `ConfigurationError`.
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
        return _refuse(error, stderr)
    try:
        if check is not None:
            check(settings)
    except ConfigurationError as error:
        return _refuse(_misconfigured(error, settings), stderr)
    logs.configure(settings, stderr)
    _announce(settings, (*command.ignored, *ignored_variables(environ)))
    return _run_to_the_end(run, settings, stderr)


def _announce(settings: Settings, ignored: Sequence[str]) -> None:
    """Log what is about to run, and once what an earlier controller's Deployment still carries."""
    if ignored:
        _log.warning("Ignored settings of an earlier controller", settings=list(dict.fromkeys(ignored)))
    _log.info(
        "Starting",
        version=build_info().version,
        commit=build_info().commit,
        seat_limit=settings.seat_limit_meaning,
        settings={option.flag: settings.text_of(field) for field, option in OPTIONS.items() if option.flag},
    )


def _run_to_the_end(run: Callable[[Settings], Awaitable[int]], settings: Settings, stderr: TextIO) -> int:
    try:
        return anyio.run(run, settings, backend_options={"use_uvloop": True})
    except KeyboardInterrupt:
        _log.error("Interrupted before it could stop in order")
        return EXIT_FAILURE
    except Exception as error:  # noqa: BLE001 - the edge of the process: all that is left is to say what happened
        causes = list(_leaves(error))
        for cause in causes:
            if isinstance(cause, UsageError):
                return _refuse(cause, stderr)
            if isinstance(cause, ConfigurationError):
                return _refuse(_misconfigured(cause, settings), stderr)
        expected = all(isinstance(cause, (ApiError, LeadershipLost)) for cause in causes)
        _log.error("Stopped by an error", err=error, exc_info=None if expected else error)
        return EXIT_FAILURE


def _misconfigured(error: ConfigurationError, settings: Settings) -> UsageError:
    """The same error, led by the settings that the user gave for reaching the cluster."""
    given = [settings.given_as[field] for field in ("kubeconfig", "context") if field in settings.given_as]
    return UsageError(": ".join([*([", ".join(given)] if given else []), str(error)]))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that a group consists of."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _refuse(error: UsageError, stderr: TextIO) -> int:
    print(f"{PROGRAM}: {error}", file=stderr)
    return EXIT_USAGE
