r"""JSONPath of printer columns: members, indexes, and filters of list items by the value of a member.

    .status.phase    .metadata.labels.app\.kubernetes\.io/name    .spec.items[0].name
    .status.conditions[?(@.type=="Ready")].status

Source: "JSONPath Support" of the Kubernetes documentation. Other forms are refused when a definition is read,
not when an object is printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

Step = Callable[[Any], Iterable[Any]]

_MEMBER = re.compile(r"\.(?P<name>(?:[^.\[\]\\]|\\.)+)")
_INDEX = re.compile(r"\[(?P<index>\d+|\*)\]")
_FILTER = re.compile(r"""\[\?\(@\.(?P<name>\w+)\s*==\s*(?P<quote>['"])(?P<value>[^'"]*)(?P=quote)\)\]""")


class UnknownPath(ValueError):
    """A JSONPath of an unsupported form."""


def compile_path(text: str) -> Callable[[Any], Any]:
    """Return a function that finds the first value of a path, or `None`. Raises `UnknownPath`."""
    steps: list[Step] = []
    rest = text
    while rest:
        for pattern, make in ((_MEMBER, _member), (_INDEX, _index), (_FILTER, _filter)):
            if match := pattern.match(rest):
                steps.append(make(match))
                rest = rest[match.end() :]
                break
        else:
            raise UnknownPath(f"{text!r} is not supported from {rest!r} on")

    def find(document: Any) -> Any:
        found: list[Any] = [document]
        for step in steps:
            found = [item for value in found for item in step(value)]
        return next(iter(found), None)

    return find


def _member(match: re.Match[str]) -> Step:
    name = re.sub(r"\\(.)", r"\1", match["name"])
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _index(match: re.Match[str]) -> Step:
    if match["index"] == "*":
        return lambda value: value if isinstance(value, list) else []
    index = int(match["index"])
    return lambda value: value[index : index + 1] if isinstance(value, list) else []


def _filter(match: re.Match[str]) -> Step:
    name, expected = match["name"], match["value"]

    def step(value: Any) -> Iterable[Any]:
        items = value if isinstance(value, list) else []
        return [item for item in items if isinstance(item, dict) and item.get(name) == expected]

    return step
