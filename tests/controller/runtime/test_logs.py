"""Tests of log records: their format, and values that cannot be formatted."""

import io
import json
import logging
import re
import sys
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.config.flags import LogFormat, LogLevel, Settings
from controller.runtime import logs

pytestmark = pytest.mark.usefixtures("process_logging")

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Terminal(io.StringIO):
    """A stream that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Metadata:
    name: str
    namespace: str


@dataclass
class Thing:
    """An API object."""

    metadata: Metadata


class Hostile:
    """A value that cannot be formatted."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    @property
    def metadata(self) -> object:
        raise RuntimeError("no")


def configured(
    log_format: LogFormat | None = LogFormat.JSON,
    level: LogLevel = LogLevel.INFO,
    stream: io.StringIO | None = None,
    no_color: str = "",
) -> io.StringIO:
    stream = stream or io.StringIO()
    logs.configure(Settings(log_format=log_format, log_level=level, no_color=no_color), stream)
    return stream


def fail(error: Exception) -> None:
    raise error


def only_record(stream: io.StringIO) -> dict[str, object]:
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert isinstance(record, dict)
    return record


def test_a_record_has_the_fixed_keys_first_and_the_error_last() -> None:
    stream = configured()
    logs.get_logger("controller.x").warning(
        "Booked seat", err=ValueError("boom\nhere"), claim_uid="u", seats=2
    )
    record = only_record(stream)
    assert list(record) == ["ts", "level", "logger", "msg", "claimUID", "seats", "err"]
    assert TIMESTAMP.fullmatch(str(record["ts"]))
    assert (record["level"], record["logger"], record["msg"]) == ("warning", "controller.x", "Booked seat")
    assert (record["claimUID"], record["seats"], record["err"]) == ("u", 2, "ValueError: boom here")


def test_a_whole_second_has_a_fraction() -> None:
    stream = configured()
    record = logging.makeLogRecord(
        {"name": "informers", "created": 1767225600.0, "levelno": 20, "levelname": "INFO"}
    )
    logging.getLogger("informers").handle(record)
    assert only_record(stream)["ts"] == "2026-01-01T00:00:00.000000Z"


def test_records_of_the_standard_library_have_the_same_format() -> None:
    stream = configured()
    logging.getLogger("informers.cache.reflector").info("Listed %d pages", 3, extra={"resource_version": "7"})
    record = only_record(stream)
    assert list(record) == ["ts", "level", "logger", "msg", "resourceVersion"]
    assert (record["logger"], record["msg"], record["resourceVersion"]) == (
        "informers.cache.reflector",
        "Listed 3 pages",
        "7",
    )


def test_objects_are_written_as_references() -> None:
    stream = configured()
    logs.get_logger("controller").info(
        "Seen",
        pod=Thing(Metadata("p", "ns")),
        node=Thing(Metadata("n", "")),
        pods=[Thing(Metadata("b", "a"))],
    )
    record = only_record(stream)
    assert record["pod"] == {"name": "p", "namespace": "ns"}
    assert record["node"] == {"name": "n"}
    assert record["pods"] == [{"name": "b", "namespace": "a"}]


def test_an_exception_is_one_line_with_its_traceback_as_a_value() -> None:
    stream = configured()
    for log in (logs.get_logger("controller"), logging.getLogger("informers")):
        try:
            fail(ExceptionGroup("tasks", [LookupError("missing"), ValueError()]))
        except ExceptionGroup:
            log.exception("Failed")
    for line in stream.getvalue().splitlines():
        record = json.loads(line)
        assert record["level"] == "error"
        assert record["err"] == "LookupError: missing; ValueError"
        assert "Traceback" in record["stacktrace"]
    assert len(stream.getvalue().splitlines()) == 2


CYCLE: list[object] = []
CYCLE.append(CYCLE)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
VALUES = st.recursive(
    SCALARS | st.builds(object) | st.just(LogLevel.INFO) | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.integers() | st.binary(), inner, max_size=3)
        | st.tuples(inner)
        | st.frozensets(SCALARS, max_size=3)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES, message=st.text(), log_format=st.sampled_from(LogFormat))
def test_no_value_breaks_a_record(value: object, message: str, log_format: LogFormat) -> None:
    stream = configured(log_format)
    logs.get_logger("controller").info(message, value=value)
    written = stream.getvalue()
    assert written.count("\n") == 1
    written.encode()
    if log_format is LogFormat.JSON:
        assert json.loads(written)["level"] == "info"


@pytest.mark.parametrize(
    "value", [Hostile(), [Hostile()], {"a": Hostile()}, CYCLE, "\udcff", [10**5000], object()]
)
def test_values_that_cannot_be_formatted_do_not_break_a_record(value: object) -> None:
    stream = configured()
    logs.get_logger("controller").info("Message", value=value, err=value)
    assert {"value", "err"} <= only_record(stream).keys()


def test_a_key_equal_to_a_fixed_key_gets_an_underscore() -> None:
    stream = configured()
    logs.get_logger("controller").info("Message", level="mine", logger="mine", ts=1, stacktrace=2)
    record = only_record(stream)
    assert (record["level"], record["logger"]) == ("info", "controller")
    assert (record["level_"], record["logger_"], record["ts_"], record["stacktrace_"]) == (
        "mine",
        "mine",
        1,
        2,
    )


@pytest.mark.parametrize(
    ("level", "written"),
    [
        (LogLevel.DEBUG, ["debug", "info", "warning", "error"]),
        (LogLevel.INFO, ["info", "warning", "error"]),
        (LogLevel.WARNING, ["warning", "error"]),
        (LogLevel.ERROR, ["error"]),
    ],
)
def test_levels(level: LogLevel, written: list[str]) -> None:
    stream = configured(level=level)
    own, standard = logs.get_logger("controller"), logging.getLogger("informers")
    for name in ("debug", "info", "warning", "error"):
        getattr(own, name)("Message")
        getattr(standard, name)("Message")
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == [
        name for name in written for _ in range(2)
    ]


def test_debug_records_of_foreign_libraries_are_dropped() -> None:
    stream = configured(level=LogLevel.DEBUG)
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: {...}")
    assert stream.getvalue() == ""


def test_warnings_of_python_are_records() -> None:
    stream = configured()
    with warnings.catch_warnings():
        logging.captureWarnings(capture=True)
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(capture=False)
    assert only_record(stream)["logger"] == "py.warnings"


def test_the_default_format_is_text_on_a_terminal_and_json_elsewhere() -> None:
    plain, terminal = configured(None), io.StringIO()
    logs.get_logger("controller").info("Message")
    assert only_record(plain)["msg"] == "Message"
    terminal = configured(None, stream=Terminal())
    logs.get_logger("controller").info("Message")
    assert "\x1b[1mMessage\x1b[0m" in terminal.getvalue()


def test_text_without_colors_is_plain() -> None:
    for terminal in (False, True):
        stream = configured(LogFormat.TEXT, stream=Terminal() if terminal else None, no_color="1")
        logs.get_logger("controller.x").info(
            "Booked seat",
            workload=Thing(Metadata("w", "ns")),
            claim="claim-w",
            why="no memory",
            checks={"a": "b c"},
            names=["x", "y"],
            lines="a\nb",
            empty="",
            count=0,
        )
        line = stream.getvalue()
        assert TIMESTAMP.match(line)
        assert line.partition(" ")[2] == (
            "INFO    Booked seat workload=ns/w claim=claim-w "
            'why="no memory" checks={"a":"b c"} names=x,y lines="a\\nb" empty="" count=0 (controller.x)\n'
        )


@pytest.mark.parametrize("node", [{"name": "n"}, {"name": "n", "namespace": ""}])
def test_text_shows_a_cluster_scoped_reference_by_its_name_alone(node: dict[str, str]) -> None:
    stream = configured(LogFormat.TEXT)
    logs.get_logger("controller").info("Message", node=node)
    assert stream.getvalue().endswith("Message node=n (controller)\n")


def test_text_shows_a_traceback_below_the_line() -> None:
    stream = configured(LogFormat.TEXT)
    try:
        fail(LookupError("missing"))
    except LookupError:
        logs.get_logger("controller").exception("Failed")
    first, second, *_, last = stream.getvalue().splitlines()
    assert first.endswith('ERROR   Failed err="LookupError: missing" (controller)')
    assert (second, last) == ("Traceback (most recent call last):", "LookupError: missing")


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("claim_uid", "claimUID"),
        ("reconcile_id", "reconcileID"),
        ("id", "id"),
        ("reconcileID", "reconcileID"),
        ("max_seats", "maxSeats"),
        ("pod_ip", "podIP"),
    ],
)
def test_keys_are_camel_case(key: str, written: str) -> None:
    stream = configured()
    logs.get_logger("controller").info("Message", **{key: 1})
    assert written in only_record(stream)


def test_a_second_configure_replaces_the_stream() -> None:
    first, second = configured(), configured()
    logs.get_logger("controller").info("Message")
    assert first.getvalue() == ""
    assert only_record(second)["msg"] == "Message"


def test_json_types_are_unchanged() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    assert logs.plain({"a": (1, 2.5, None, True), 3: time}) == {
        "a": [1, 2.5, None, True],
        "3": "2026-01-01T00:00:00+00:00",
    }
    assert logs.plain(CYCLE) == [[[[[[[["..."]]]]]]]]
    assert logs.plain(10**40) == "1" + "0" * 40
    assert logs.plain({"b", "a"}) == ["a", "b"]
    assert logs.plain(sys.float_info.max) == sys.float_info.max
