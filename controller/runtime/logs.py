"""Structured logs: one record per line, in one format for structlog and the standard library.

Output is JSON for machines or text for people. Each record has `ts` (RFC 3339, UTC, microseconds), `level`,
`logger` and `msg`. An error adds `err`; an exception with a traceback adds `stacktrace`. The message is
constant; values have keys. The key `claim_uid` is written as `claimUID`, and an API object as its reference.

Invariant: no value makes logging fail, because `plain` first reduces it to text and numbers. Debug records of
foreign libraries are dropped, since they contain whole objects.
"""

from __future__ import annotations

import logging
import math
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from controller.config.flags import LogFormat, Settings

Logger = structlog.stdlib.BoundLogger

_OWN_PACKAGES = ("controller", "informers", "ledger", "placement")
_TAIL = frozenset({"err", "stacktrace"})
_INTERNAL = frozenset({"_from_structlog", "stack_info"})
_INITIALISMS = frozenset({"id", "uid", "ip", "api", "url"})
_MAX_DEPTH = 8
_MAX_INTEGER = 2**63
_NEEDS_QUOTES = re.compile(r"[\s=\"]")
_BOLD, _DIM, _CYAN = "1", "2", "36"
_LEVEL_COLORS = {"debug": "34", "info": "32", "warning": "33", "error": "31", "critical": "31"}


def get_logger(name: str) -> Logger:
    """Return the logger of a module. Calls take a constant message and keyword values."""
    return structlog.stdlib.get_logger(name)


def configure(settings: Settings, stream: TextIO) -> None:
    """Write all records of this process to `stream`, with the format and level of `settings`."""
    terminal = stream.isatty()
    log_format = settings.log_format or (LogFormat.TEXT if terminal else LogFormat.JSON)
    colors = terminal and not settings.no_color
    render: list[Processor] = (
        [_render_json] if log_format is LogFormat.JSON else [_TextRenderer(colors=colors)]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
            processors=[_standardize, *render],
        )
    )
    level = logging.getLevelNamesMapping()[settings.log_level.name]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.INFO))
    for package in _OWN_PACKAGES:
        logging.getLogger(package).setLevel(level)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def plain(value: object) -> object:
    """Reduce `value` to JSON types. Other objects become their `repr`. Never raises."""
    try:
        return _plain(value, 0)
    except Exception as error:  # noqa: BLE001 - a faulty `repr` must not stop the caller
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def describe_error(error: BaseException) -> str:
    """Return one line for an error: its class and text. A group lists its errors."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(describe_error, leaf_errors(error)))
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {_encodable(text)}" if text else type(error).__name__


def leaf_errors(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaf_errors(each)
    else:
        yield error


def _plain(value: object, depth: int) -> object:
    match value:
        case None | bool():
            return value
        case Enum():
            return _plain(value.value, depth)
        case str():
            return _encodable(value)
        case int():
            return int(value) if abs(value) < _MAX_INTEGER else str(value)
        case float():
            return float(value) if math.isfinite(value) else str(value)
        case BaseException():
            return describe_error(value)
        case datetime():
            return value.isoformat()
    reference = _reference(value)
    return _plain_collection(value, depth) if reference is None else reference


def _plain_collection(value: object, depth: int) -> object:
    match value:
        case Mapping() | AbstractSet() | list() | tuple() if depth >= _MAX_DEPTH:
            return "..."
        case Mapping():
            return {str(_plain(key, _MAX_DEPTH)): _plain(item, depth + 1) for key, item in value.items()}
        case AbstractSet():
            return sorted((_plain(item, depth + 1) for item in value), key=str)
        case list() | tuple():
            return [_plain(item, depth + 1) for item in value]
    return _encodable(repr(value))


def _encodable(text: str) -> str:
    """Return the text as a plain `str`, with escapes for lone surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace").decode()


def _reference(value: object) -> dict[str, str] | None:
    """Return the name and namespace of an API object; `None` for other values."""
    metadata = getattr(value, "metadata", None)
    name, namespace = getattr(metadata, "name", None), getattr(metadata, "namespace", None)
    if not isinstance(name, str) or not isinstance(namespace, str):
        return None
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


@lru_cache(maxsize=1024)
def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.upper() if word in _INITIALISMS else word.capitalize() for word in rest)


def _standardize(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Order the keys: fixed ones first, the error last. Reduce all values to plain data."""
    record = cast("logging.LogRecord", event.pop("_record"))
    error = _error_of(event.pop("exc_info", None))
    message = event.pop("event", "")
    head = {
        "ts": f"{datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None):%Y-%m-%dT%H:%M:%S.%f}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
        "msg": _encodable(str(message)),
    }
    tail = {}
    if error is not None:
        stack = "".join(traceback.format_exception(error))
        tail = {"err": plain(error), "stacktrace": _encodable(stack)}
    values = {}
    for key, value in event.items():
        if key == "err":
            tail = {"err": plain(value)} | tail
        elif key not in _INTERNAL:
            name = _camel(str(key))
            values[f"{name}_" if name in head or name in _TAIL else name] = plain(value)
    return head | values | tail


def _error_of(exc_info: object) -> BaseException | None:
    """Return the exception of an `exc_info` argument, which has several forms."""
    match exc_info:
        case BaseException():
            return exc_info
        case (_, BaseException() as error, _):
            return error
        case True:
            return sys.exc_info()[1]
    return None


def _render_json(_: WrappedLogger, __: str, event: EventDict) -> str:
    return msgspec.json.encode(event).decode()


@dataclass(frozen=True)
class _TextRenderer:
    """Renders `ts LEVEL msg key=value ... (logger)` on one line, and a traceback below it."""

    colors: bool

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> str:
        level, message = str(event.pop("level")), str(event.pop("msg"))
        stack = event.pop("stacktrace", None)
        parts = [
            self._paint(_DIM, str(event.pop("ts"))),
            self._paint(_LEVEL_COLORS.get(level, _BOLD), f"{level.upper():7}"),
            self._paint(_BOLD, message if message.isprintable() else ascii(message)),
        ]
        logger = self._paint(_DIM, f"({event.pop('logger')})")
        parts += (f"{self._paint(_CYAN, key)}={_text(value)}" for key, value in event.items())
        return "\n".join([" ".join([*parts, logger]), *(stack.rstrip().splitlines() if stack else ())])

    def _paint(self, color: str, text: str) -> str:
        return f"\x1b[{color}m{text}\x1b[0m" if self.colors else text


def _text(value: object) -> str:
    """Return a value of a text record. References become `namespace/name`; quotes appear only if needed."""
    match value:
        case {"name": str() as name, **rest} if not rest.keys() - {"namespace"}:
            value = "/".join(filter(None, [*map(str, rest.values()), name]))
        case list() if all(isinstance(item, str) for item in value):
            value = ",".join(value)
    if isinstance(value, str) and value.isprintable() and value and not _NEEDS_QUOTES.search(value):
        return value
    return _encodable(msgspec.json.encode(value).decode())
