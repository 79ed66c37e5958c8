"""Label and field selectors, in the API's syntax.

Source: "Labels and Selectors" and "Field Selectors" of the Kubernetes documentation. Like a real server, this
one refuses field selectors that the kind does not support.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from informers.api import Selectors
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind
from simulation.apiserver.refusals import bad_request

Selector = Callable[[Document], bool]

_COMMA = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^=!]*)")
_EXISTENCE = re.compile(r"(?P<not>!?)\s*(?P<key>[^=!\s()]+)")
_IDENTITY_FIELDS = ("metadata.name", "metadata.namespace")


def compile_selectors(kind: Kind, selectors: Selectors) -> Selector:
    """Return a predicate on documents. Raises `Refusal` 400 for a selector that the kind does not support."""
    tests = [*_labels(selectors.labels), *_fields(kind, selectors.fields)]
    return lambda document: all(test(document) for test in tests)


def _labels(text: str) -> Iterator[Selector]:
    for part in _split(text):
        if match := _SET.fullmatch(part):
            values = tuple(value.strip() for value in match["values"].split(","))
            yield _label(match["key"], values, wanted=match["operator"] == "in")
        elif match := _EQUALITY.fullmatch(part):
            yield _label(match["key"], (match["value"].strip(),), wanted=match["operator"] != "!=")
        elif match := _EXISTENCE.fullmatch(part):
            yield _has_label(match["key"], wanted=not match["not"])
        else:
            raise bad_request(f"unable to parse requirement: {part!r}")


def _label(key: str, values: tuple[str, ...], *, wanted: bool) -> Selector:
    # An absent label is not in any set and not equal to any value.
    return lambda document: (_labels_of(document).get(key) in values) is wanted


def _has_label(key: str, *, wanted: bool) -> Selector:
    return lambda document: (key in _labels_of(document)) is wanted


def _labels_of(document: Document) -> dict[str, str]:
    return document["metadata"].get("labels") or {}


def _fields(kind: Kind, text: str) -> Iterator[Selector]:
    for part in _split(text):
        match = _EQUALITY.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid field selector: {part!r}")
        if match["key"] not in (*_IDENTITY_FIELDS, *kind.fields):
            raise bad_request(f"field label not supported: {match['key']}")
        yield _field(match["key"], match["value"].strip(), wanted=match["operator"] != "!=")


def _field(path: str, value: str, *, wanted: bool) -> Selector:
    def test(document: Document) -> bool:
        found: object = document
        for part in path.split("."):
            found = found.get(part, "") if isinstance(found, dict) else ""
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return (text == value) is wanted

    return test


def _split(text: str) -> list[str]:
    return [part.strip() for part in _COMMA.split(text)] if text.strip() else []
